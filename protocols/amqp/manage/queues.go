package manage

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// namesAtOnce is how many names are read from the index in one go.
const namesAtOnce = 1000

// maxNames bounds the names that a listing looks through, but for pages in the order of names.
const maxNames = 1_000_000

// counted are the fields of a queue that its leader has to be asked for.
var counted = []string{"messages", "consumer", "message_stats", "idle"}

// listed is a queue of a list, or a topic, which is a stream.
type listed struct {
	name  core.Name
	topic *router.Topic // nil: a queue
}

func (c *call) entryOf(l listed) entry {
	if l.topic != nil {
		return entry{l.name.Name, func(full bool) (object, error) { return c.jsonOfStream(l.topic, full) }}
	}
	return entry{l.name.Name, func(full bool) (object, error) { return c.queueByName(l.name, full) }}
}

// eachQueue calls fn with the queues of namespaces, and their topics, that the caller may see, until it returns
// false: namespace by namespace, the queues by name, then the topics.
func (c *call) eachQueue(namespaces []string, fn func(listed) bool) error {
	for _, ns := range namespaces {
		for after := ""; ; {
			if c.ctx.Err() != nil {
				return core.E(core.Unavailable, "listing queues: %v", context.Cause(c.ctx))
			}
			names, err := c.router.QueueNames(ns, after, namesAtOnce)
			if err != nil {
				return err
			}
			for _, name := range names {
				n := core.Name{Namespace: ns, Name: name}
				if c.may(router.ResourceQueue, n) && !fn(listed{name: n}) {
					return nil
				}
			}
			if len(names) < namesAtOnce {
				break
			}
			after = names[len(names)-1]
		}
		for _, t := range c.router.Topics(ns) {
			if !t.Internal && c.may(router.ResourceTopic, t.Name) && !fn(listed{t.Name, t}) {
				return nil
			}
		}
	}
	return nil
}

// queueEntries are the queues of namespaces, and their topics.
func (c *call) queueEntries(namespaces []string) (all []entry, err error) {
	err = c.eachQueue(namespaces, func(l listed) bool {
		all = append(all, c.entryOf(l))
		return len(all) <= c.maxNames
	})
	if err == nil && len(all) > c.maxNames {
		err = badRequest("more than %d queues: only pages in the order of names show so many", c.maxNames)
	}
	return all, err
}

func listQueues(c *call) (any, error) {
	namespaces, err := c.namespaces()
	if err != nil {
		return nil, err
	}
	costly := counted
	if c.flag("disable_stats") && !c.flag("enable_queue_totals") {
		costly = nil
	}
	q, err := c.paging()
	if err != nil {
		return nil, err
	}
	if by := string(c.QueryArgs().Peek("sort")); q != nil && (by == "" || by == "name") {
		return c.pageOfQueues(q, namespaces, by != "" && c.flag("sort_reverse"), costly)
	}
	all, err := c.queueEntries(namespaces)
	if err != nil {
		return nil, err
	}
	return c.list(all, costly...)
}

// pageOfQueues is a page of queues in their order, or its reverse, of any number of them: no others are kept.
func (c *call) pageOfQueues(q *paging, namespaces []string, reverse bool, costly []string) (any, error) {
	total, filtered, err := c.countListed(q, namespaces)
	if err != nil {
		return nil, err
	}
	from, to, err := q.window(filtered)
	if err != nil {
		return nil, err
	}
	if reverse {
		from, to = filtered-to, filtered-from
	}
	var all []entry
	at := 0
	if from < to {
		err = c.eachQueue(namespaces, func(l listed) bool {
			if !q.wants(l.name.Name) {
				return true
			}
			if at >= from {
				all = append(all, c.entryOf(l))
			}
			at++
			return at < to
		})
	}
	if err != nil {
		return nil, err
	}
	if reverse {
		slices.Reverse(all)
	}
	items, err := loadAll(all, needs(c.columns(), costly))
	if err != nil {
		return nil, err
	}
	return q.answer(items, filtered, total), nil
}

// countListed is how many queues the caller may see, and how many of those are asked for. Their names are
// looked through only where that is not known without.
func (c *call) countListed(q *paging, namespaces []string) (total, filtered int, err error) {
	everything := router.Resource{Kind: router.ResourceCluster}
	if q.name == "" && c.router.Authorize(c.principal, router.OpDescribe, everything) == nil { // who watches the cluster sees all
		n, err := c.numQueues(namespaces)
		return int(n), int(n), err
	}
	err = c.eachQueue(namespaces, func(l listed) bool {
		total++
		if q.wants(l.name.Name) {
			filtered++
		}
		return true
	})
	return total, filtered, err
}

// queueByName is a queue as JSON; nil where there is none any more.
func (c *call) queueByName(n core.Name, full bool) (object, error) {
	q, err := c.router.Queue(n)
	if kind(err) == core.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.jsonOfQueue(q, full)
}

// kindNames are the types of queues.
var kindNames = [...]string{router.Classic: "classic", router.Quorum: "quorum", router.Stream: "stream"}

func (c *call) jsonOfQueue(q *router.Queue, full bool) (object, error) {
	o := object{
		"name": q.Name.Name, "vhost": vhostOf(q.Name.Namespace), "type": kindNames[q.Kind], "durable": q.Durable,
		"auto_delete": q.AutoDelete, "exclusive": q.Owner != "", "arguments": jsonOfTable(q.Arguments),
		"node": c.leader(), "state": "running", "policy": nil, "operator_policy": nil,
	}
	if q.Owner != "" {
		o["owner_pid_details"] = object{"name": q.Owner}
	}
	effective := object{}
	for _, p := range c.router.PoliciesOf(q) {
		if p.Operator {
			o["operator_policy"] = p.Name
		} else {
			o["policy"] = p.Name
		}
		maps.Copy(effective, jsonOfTable(p.Definition))
	}
	o["effective_policy_definition"] = effective
	if q.Kind == router.Quorum {
		o["leader"] = c.leader()
		o["members"], o["online"] = c.memberNames(false), c.memberNames(true)
	}
	if !full {
		return o, nil
	}
	return o, c.count(o, q)
}

// count adds what the queue's leader knows.
func (c *call) count(o object, q *router.Queue) error {
	var n router.QueueCounts
	var err error
	if !q.GroupOnly {
		if n, err = c.router.CountQueue(c.ctx, q.ID, ""); kind(err) == core.NotFound {
			return nil // deleted meanwhile: it was as it is shown
		}
	}
	if err != nil {
		return err
	}
	head, err := c.router.Head(q.ID)
	if err != nil && kind(err) != core.NotFound {
		return err
	}
	ready := n.Ready + n.Delayed
	o["messages"], o["messages_ready"], o["messages_unacknowledged"] = ready+n.Unsettled, ready, n.Unsettled
	o["messages_persistent"], o["messages_ram"] = ready+n.Unsettled, 0
	o["message_bytes"] = head.Bytes
	o["consumers"] = n.Consumers
	o["message_stats"] = object{"publish": int64(head.End)}
	return nil
}

// jsonOfStream is a topic as a queue of type stream.
func (c *call) jsonOfStream(t *router.Topic, full bool) (object, error) {
	o := object{
		"name": t.Name.Name, "vhost": vhostOf(t.Name.Namespace), "type": "stream", "durable": true, "auto_delete": false,
		"exclusive": false, "arguments": object{"x-queue-type": "stream"}, "node": c.leader(), "leader": c.leader(), "state": "running",
		"members": c.memberNames(false), "online": c.memberNames(true),
		"policy": nil, "operator_policy": nil, "effective_policy_definition": object{},
	}
	if !full {
		return o, nil
	}
	var messages, bytes, published int64
	for _, q := range t.Partitions {
		head, err := c.router.Head(q)
		if kind(err) == core.NotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		messages += int64(head.End - head.Start)
		published += int64(head.End)
		bytes += head.Bytes
	}
	o["messages"], o["messages_ready"], o["messages_unacknowledged"] = messages, messages, 0
	o["messages_persistent"], o["messages_ram"], o["message_bytes"], o["consumers"] = messages, 0, bytes, 0
	o["message_stats"] = object{"publish": published}
	return o, nil
}

// leader is the node that leads, or this one where nobody does.
func (c *call) leader() string {
	if i := c.router.Cluster(); i.HasLeader {
		return nodeName(i.Leader.ID)
	}
	return c.node()
}

// memberNames are the cluster's nodes; those that are there, where online says so.
func (c *call) memberNames(online bool) []string {
	all := []string{}
	for _, m := range c.router.Cluster().Members {
		if m.Voter && (!online || !m.Away) {
			all = append(all, nodeName(m.ID))
		}
	}
	return all
}

// findQueue is the queue of the path, or the topic where no queue has the name. A node that knows
// neither asks the leader first.
func (c *call) findQueue() (*router.Queue, *router.Topic, error) {
	n, err := c.name("queue")
	if err != nil {
		return nil, nil, err
	}
	for synced := false; ; synced = true {
		q, err := c.router.Queue(n)
		if err == nil {
			if !c.may(router.ResourceQueue, n) {
				return nil, nil, errNotFound
			}
			return q, nil, nil
		}
		if kind(err) != core.NotFound {
			return nil, nil, err
		}
		if t, ok := c.router.Topic(n); ok && c.may(router.ResourceTopic, n) {
			return nil, t, nil
		}
		if synced {
			return nil, nil, errNotFound
		}
		if err := c.router.Sync(c.ctx); err != nil {
			return nil, nil, err
		}
	}
}

func getQueue(c *call) (any, error) {
	q, t, err := c.findQueue()
	if err != nil {
		return nil, err
	}
	full := needs(c.columns(), counted)
	if t != nil {
		return c.jsonOfStream(t, full)
	}
	o, err := c.jsonOfQueue(q, full)
	if err != nil {
		return nil, err
	}
	o["consumer_details"] = c.consumersOf(q.Name)
	o["created"] = time.UnixMilli(q.Created).UTC().Format(time.RFC3339)
	return o, nil
}

// queueJSON is a queue in requests.
type queueJSON struct {
	Name       string  `json:"name"`
	VHost      string  `json:"vhost"`
	Type       string  `json:"type"`
	Durable    boolean `json:"durable"`
	AutoDelete boolean `json:"auto_delete"`
	Arguments  args    `json:"arguments"`
}

func putQueue(c *call) (any, error) {
	var q queueJSON
	if err := c.read(&q, maxDefinition); err != nil {
		return nil, err
	}
	vhost := c.params.Get("vhost")
	if err := c.needVHost(); err != nil {
		return nil, err
	}
	_, _, err := c.findQueue()
	found := err == nil
	if err != nil && !errors.Is(err, errNotFound) {
		return nil, err
	}
	q.Name = c.params.Get("queue")
	if err := c.as(vhost, func(k *client) error { return k.declareQueue(&q) }); err != nil {
		return nil, err
	}
	return c.created(!found)
}

// typeArgument is the argument that says a queue's type, if the field type does not.
const typeArgument = "x-queue-type"

func (k *client) declareQueue(q *queueJSON) error {
	if err := short(q.Name); err != nil {
		return err
	}
	arguments := message.Table(q.Arguments)
	if _, ok := arguments.Get(typeArgument); !ok && q.Type != "" && q.Type != "classic" {
		arguments = append(arguments, message.Header{Name: typeArgument, Value: message.String(q.Type)})
	}
	_, err := ask[*spec.QueueDeclareOk](k, 1, &spec.QueueDeclare{
		Queue: q.Name, Durable: bool(q.Durable), AutoDelete: bool(q.AutoDelete), Arguments: arguments,
	})
	return err
}

func deleteQueue(c *call) (any, error) {
	if _, _, err := c.findQueue(); err != nil {
		return nil, err
	}
	return nil, c.as(c.params.Get("vhost"), func(k *client) error {
		_, err := ask[*spec.QueueDeleteOk](k, 1, &spec.QueueDelete{
			Queue: c.params.Get("queue"), IfUnused: c.flag("if-unused"), IfEmpty: c.flag("if-empty"),
		})
		return err
	})
}

func purgeQueue(c *call) (any, error) {
	if _, _, err := c.findQueue(); err != nil {
		return nil, err
	}
	return nil, c.as(c.params.Get("vhost"), func(k *client) error {
		_, err := ask[*spec.QueuePurgeOk](k, 1, &spec.QueuePurge{Queue: c.params.Get("queue")})
		return err
	})
}

// queueAction is for mirrors, which there are none of: nothing is to be done.
func queueAction(c *call) (any, error) {
	_, _, err := c.findQueue()
	return nil, err
}

// numQueues is how many queues and streams the namespaces have, whether or not the caller has rights to them.
func (c *call) numQueues(namespaces []string) (n int64, err error) {
	for _, ns := range namespaces {
		queues, err := c.router.NumQueues(ns)
		if err != nil {
			return 0, err
		}
		n += queues
		for _, t := range c.router.Topics(ns) {
			if !t.Internal {
				n++
			}
		}
	}
	return n, nil
}

// totals are the messages of all queues together; nothing where there are too many queues to count them.
func (c *call) totals(namespaces []string, queues int64) (object, error) {
	sum := object{}
	if queues > maxTotals {
		return sum, nil
	}
	all, err := c.queueEntries(namespaces)
	if err != nil {
		return nil, err
	}
	items, err := loadAll(all, true)
	for _, field := range []string{"messages", "messages_ready", "messages_unacknowledged"} {
		n := int64(0)
		for _, o := range items {
			f, _ := numberOf(o[field])
			n += int64(f)
		}
		sum[field] = n
	}
	return sum, err
}

// maxTotals bounds the queues that are counted for a sum.
const maxTotals = 2_000

// sortEntries brings entries in the order of their names.
func sortEntries(all []entry) {
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
}
