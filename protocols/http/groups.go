package httpd

import (
	"context"
	"slices"
	"strings"
	"time"

	"polylog/core"
	"polylog/router"
)

// Coordinator knows the members of Kafka's groups, on the node that leads; protocols/kafka has it.
type Coordinator interface {
	LiveGroups(ctx context.Context, fn func(router.LiveGroup)) error
	LiveGroup(ctx context.Context, name string) (live router.LiveGroup, found bool, err error)
}

// groupJSON is a group of Kafka's clients in a list.
type groupJSON struct {
	Name       string     `json:"name"`
	State      string     `json:"state"` // in Kafka's words; Unknown where nobody leads
	Type       string     `json:"type,omitempty"`
	LastCommit *time.Time `json:"lastCommit,omitempty"`
}

// groupsWanted is a page of groups.
type groupsWanted struct {
	After  string `json:"after"`
	Limit  int    `json:"limit"`
	Search string `json:"search"` // in lower case
}

type groupsPage struct {
	Groups []groupJSON `json:"groups"`
	Next   string      `json:"next,omitempty"`
}

// localGroups is a page of the groups that have committed or have members here.
func (a *api) localGroups(ctx context.Context, w groupsWanted) (groupsPage, error) {
	all := map[string]groupJSON{}
	unknown := "Empty"
	if k := a.srv.coordinator(); k != nil {
		err := k.LiveGroups(ctx, func(g router.LiveGroup) { all[g.Name] = groupJSON{Name: g.Name, State: g.State, Type: g.Type} })
		if err != nil {
			unknown = "Unknown"
		}
	}
	stored, err := a.router.Groups()
	if err != nil {
		return groupsPage{}, err
	}
	for _, g := range stored {
		j, live := all[g.Name]
		if !live {
			j = groupJSON{Name: g.Name, State: unknown}
		}
		j.LastCommit = timeOrNil(g.LastCommit)
		all[g.Name] = j
	}
	p := groupsPage{Groups: []groupJSON{}}
	for _, j := range all {
		if j.Name > w.After && strings.Contains(strings.ToLower(j.Name), w.Search) {
			p.Groups = append(p.Groups, j)
		}
	}
	slices.SortFunc(p.Groups, func(a, b groupJSON) int { return strings.Compare(a.Name, b.Name) })
	if limit := min(max(w.Limit, 1), maxPage); len(p.Groups) > limit {
		p.Groups = p.Groups[:limit]
		p.Next = p.Groups[limit-1].Name
	}
	return p, nil
}

// listGroups lists Kafka's groups, as the leader sees them.
func listGroups(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "search"); err != nil {
		return err
	}
	if err := c.mayCluster(); err != nil {
		return err
	}
	limit, after, err := c.page()
	if err != nil {
		return err
	}
	w := groupsWanted{After: after, Limit: limit, Search: strings.ToLower(string(c.QueryArgs().Peek("search")))}
	leader, err := c.leader()
	if err != nil {
		leader = "" // what is stored is known here, too
	}
	p, err := ask(c, leader, opGroups, w, c.localGroups)
	if err != nil {
		return err
	}
	return c.answer(200, p)
}

// positionJSON is where a group is on a partition.
type positionJSON struct {
	Topic     string       `json:"topic"`
	Namespace string       `json:"namespace"`
	Partition int32        `json:"partition"`
	Committed *core.Offset `json:"committed"` // null: it has committed nothing
	Start     core.Offset  `json:"start"`
	End       core.Offset  `json:"end"`
	Lag       int64        `json:"lag"` // messages between the two that are still there
	Time      *time.Time   `json:"time,omitempty"`
	Metadata  string       `json:"metadata,omitempty"`
	Member    string       `json:"member,omitempty"` // that reads the partition
}

type membersWanted struct {
	Group string `json:"group"`
}

type membersAnswer struct {
	Found bool             `json:"found"`
	Group router.LiveGroup `json:"group"`
}

// localMembers is a group as this node coordinates it.
func (a *api) localMembers(ctx context.Context, w membersWanted) (m membersAnswer, err error) {
	if k := a.srv.coordinator(); k != nil {
		m.Group, m.Found, err = k.LiveGroup(ctx, w.Group)
	}
	return m, err
}

// getGroup is a group with its members and its positions.
func getGroup(c *call) error {
	if err := c.onlyQuery("limit"); err != nil {
		return err
	}
	limit, err := c.number("limit", 10_000, 1, 10_000)
	if err != nil {
		return err
	}
	name := c.params.Get("group")
	if err := c.may(router.OpDescribe, router.ResourceGroup, core.Name{Name: name}); err != nil {
		return err
	}
	answer := struct {
		groupJSON
		Protocol  string               `json:"protocol,omitempty"`
		Members   []router.GroupMember `json:"members"`
		Lag       int64                `json:"lag"`       // of all partitions
		Positions []positionJSON       `json:"positions"` // by topic and partition
		Cut       bool                 `json:"cut,omitempty"`
	}{groupJSON: groupJSON{Name: name, State: "Empty"}, Members: []router.GroupMember{}, Positions: []positionJSON{}}
	stored, known, err := c.router.Group(name)
	if err != nil {
		return err
	}
	if known {
		answer.LastCommit = timeOrNil(stored.LastCommit)
	}
	leader, err := c.leader()
	var live membersAnswer
	if err == nil {
		live, err = ask(c, leader, opMembers, membersWanted{name}, c.localMembers)
	}
	switch {
	case err != nil:
		answer.State = "Unknown"
	case live.Found:
		answer.State, answer.Type, answer.Protocol = live.Group.State, live.Group.Type, live.Group.Protocol
		answer.Members = append(answer.Members, live.Group.Members...)
	case !known:
		return core.E(core.NotFound, "group %s does not exist", name)
	}
	all, err := c.positions(name, live.Group.Members)
	if err != nil {
		return err
	}
	for _, p := range all {
		answer.Lag += p.Lag
	}
	if answer.Cut = int64(len(all)) > limit; answer.Cut {
		all = all[:limit]
	}
	answer.Positions = append(answer.Positions, all...)
	return c.answer(200, answer)
}

// positions are a group's, with those partitions that a member reads and has committed nothing of.
func (c *call) positions(group string, members []router.GroupMember) (all []positionJSON, err error) {
	offsets, err := c.router.Offsets(group)
	if err != nil {
		return nil, err
	}
	type at struct {
		topic     string
		partition int32
	}
	reader := map[at]string{}
	for _, m := range members {
		for _, a := range m.Assigned {
			for _, p := range a.Partitions {
				reader[at{a.Topic, p}] = m.ID
			}
		}
	}
	add := func(t *router.Topic, partition int32, committed core.Offset, o *router.GroupOffset) error {
		j := positionJSON{Topic: t.Name.Name, Namespace: t.Name.Namespace, Partition: partition}
		h, err := c.router.Head(t.Partitions[partition])
		if core.KindOf(err) == core.NotFound {
			return nil // deleted just now
		}
		if err != nil {
			return err
		}
		j.Start, j.End, j.Lag = h.Start, h.Stable, max(0, int64(h.Stable-max(committed, h.Start)))
		if o != nil {
			j.Committed, j.Time, j.Metadata = &o.Offset, timeOrNil(o.CommitTime), o.Metadata
		}
		if t.Name.Namespace == core.DefaultNamespace {
			k := at{t.Name.Name, partition}
			j.Member = reader[k]
			delete(reader, k)
		}
		all = append(all, j)
		return nil
	}
	for _, o := range offsets {
		if err := add(o.Topic, o.Partition, o.Offset, &o); err != nil {
			return nil, err
		}
	}
	for k := range reader {
		t, ok := c.router.Topic(core.TopicName(k.topic))
		if !ok || int(k.partition) >= len(t.Partitions) || k.partition < 0 {
			continue
		}
		if err := add(t, k.partition, 0, nil); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b positionJSON) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return all, nil
}

// Bounds of what is looked at for a page of a topic's readers: groups, and positions of all of them.
const (
	readersScan      = 1000
	readersPositions = 100_000
)

// readersOf is how many readers of a topic are looked at for a page: fewer where it has many partitions.
func readersOf(t *router.Topic) int {
	return min(max(readersPositions/max(len(t.Partitions), 1), 1), readersScan)
}

// readerJSON is who reads a topic.
type readerJSON struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // group, of Kafka's clients, or subscription
	Lag  int64  `json:"lag"`
	// Positions are a group's offsets by partition, -1 where it has none.
	Positions []core.Offset `json:"positions,omitempty"`
}

// listReaders lists who has a position on a topic: groups, then subscriptions. A page may be short, or
// empty, and still have next.
func listReaders(c *call) error {
	if err := c.onlyQuery("limit", "cursor"); err != nil {
		return err
	}
	t, err := c.topic(router.OpDescribe)
	if err != nil {
		return err
	}
	limit, cursor, err := c.page()
	if err != nil {
		return err
	}
	answer := struct {
		Readers []readerJSON `json:"readers"`
		Next    string       `json:"next,omitempty"`
	}{Readers: []readerJSON{}}
	kind, after, ok := strings.Cut(cursor, ":")
	if cursor != "" && (!ok || kind != "g" && kind != "s") {
		return invalid("this is no cursor of ours")
	}
	if kind != "s" {
		if answer.Readers, answer.Next, err = c.groupReaders(t, after, limit); err != nil {
			return err
		}
		after = ""
	}
	if answer.Next == "" {
		subs, next, err := c.subscriptionReaders(t, after, limit-len(answer.Readers))
		if err != nil {
			return err
		}
		answer.Readers, answer.Next = append(answer.Readers, subs...), next
	}
	return c.answer(200, answer)
}

func (c *call) groupReaders(t *router.Topic, after string, limit int) (all []readerJSON, next string, err error) {
	groups, err := c.router.Groups()
	if err != nil {
		return nil, "", err
	}
	all = []readerJSON{}
	scan := readersOf(t)
	from, _ := slices.BinarySearchFunc(groups, after+"\x00", func(g router.Group, name string) int { return strings.Compare(g.Name, name) })
	for i, g := range groups[min(from, len(groups)):] {
		if i == scan || len(all) == limit {
			return all, "g:" + groups[from+i-1].Name, nil
		}
		r := readerJSON{Name: g.Name, Kind: "group", Positions: make([]core.Offset, len(t.Partitions))}
		reads := false
		for p, q := range t.Partitions {
			r.Positions[p] = -1
			o, ok, err := c.router.FetchOffset(g.Name, q)
			if err != nil {
				return nil, "", err
			}
			if !ok {
				continue
			}
			h, err := c.router.Head(q)
			if err != nil {
				return nil, "", err
			}
			reads, r.Positions[p] = true, o.Offset
			r.Lag += max(0, int64(h.Stable-max(o.Offset, h.Start)))
		}
		if reads {
			all = append(all, r)
		}
	}
	return all, "", nil
}

func (c *call) subscriptionReaders(t *router.Topic, after string, limit int) (all []readerJSON, next string, err error) {
	if limit <= 0 {
		return nil, "s:" + after, nil
	}
	subs, err := c.router.Subscriptions(t.Name.Namespace, after, readersScan)
	if err != nil {
		return nil, "", err
	}
	limit = min(limit, readersOf(t))
	for i, s := range subs {
		if len(all) == limit {
			return all, "s:" + subs[i-1].Name.Name, nil
		}
		if s.Topic != t.ID {
			continue
		}
		r := readerJSON{Name: s.Name.Name, Kind: "subscription"}
		for _, q := range t.Partitions {
			n, err := c.router.CountQueue(c.ctx, q, s.Group)
			if err != nil {
				return nil, "", err
			}
			r.Lag += n.Ready + n.Unsettled + n.Delayed
		}
		all = append(all, r)
	}
	if len(subs) == readersScan {
		next = "s:" + subs[len(subs)-1].Name.Name
	}
	return all, next, nil
}
