package httpd

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"polylog/core"
	"polylog/router"
)

// /metrics/detail has what /metrics leaves out: series for each topic, queue and group. It answers only
// what is asked for, and never more than a bound: with millions of queues nobody could scrape them all.

// detailPath is where it is.
const detailPath = "/metrics/detail"

// detailFamilies are what ?family= can name.
var detailFamilies = []string{"topics", "queues", "groups"}

// Bounds of one answer, for each family.
const (
	maxDetail   = 10_000 // objects: partitions, queues, positions of groups
	detailChunk = 1_000  // names of queues that are read at a time
	detailAsks  = 8      // queues whose leader is asked at a time
)

// sample is a series: its value, and what is between the braces.
type sample struct {
	labels string
	value  int64
}

// detail gathers series by metric, in the order in which metrics come.
type detail struct {
	order   []string
	samples map[string][]sample
}

func (d *detail) add(metric, labels string, value int64) {
	if _, ok := d.samples[metric]; !ok {
		d.order = append(d.order, metric)
	}
	d.samples[metric] = append(d.samples[metric], sample{labels, value})
}

// detailHelp says what each metric is; all are gauges.
var detailHelp = map[string]string{
	"polylog_detail_topic_messages":                "Messages of a partition that can be read.",
	"polylog_detail_topic_next_offset":             "Offset that the next message of a partition gets.",
	"polylog_detail_topic_bytes":                   "Bytes of a partition's batches.",
	"polylog_detail_queue_messages_ready":          "Messages of a queue that can be delivered.",
	"polylog_detail_queue_messages_unacknowledged": "Messages of a queue that are with consumers.",
	"polylog_detail_queue_messages_delayed":        "Messages of a queue that failed and wait for their time.",
	"polylog_detail_queue_consumers":               "Consumers of a queue.",
	"polylog_detail_queue_bytes":                   "Bytes of what is in a queue.",
	"polylog_detail_group_lag_messages":            "Messages of a partition behind a group's committed offset.",
	"polylog_detail_group_offset":                  "Offset that a group has committed.",
	"polylog_detail_truncated":                     "1 where a family has more than one answer shows.",
}

// write writes Prometheus' text format.
func (d *detail) write() []byte {
	var b bytes.Buffer
	for _, metric := range d.order {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", metric, detailHelp[metric], metric)
		for _, s := range d.samples[metric] {
			fmt.Fprintf(&b, "%s{%s} %d\n", metric, s.labels, s.value)
		}
	}
	return b.Bytes()
}

// labels are pairs of name and value, escaped as the text format wants it.
func labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i] + `="` + labelEscapes.Replace(strings.ToValidUTF8(pairs[i+1], "\uFFFD")) + `"`)
	}
	return b.String()
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// wanted is what the query asks for.
type wanted struct {
	namespaces           []string
	topic, queue, prefix string
	group                string
}

// metricsDetail answers ?family=topics,queues,groups with namespace=, topic=, queue=, group= and prefix=.
func metricsDetail(c *call) error {
	if err := c.onlyQuery("family", "namespace", "topic", "queue", "group", "prefix"); err != nil {
		return err
	}
	arg := func(name string) string { return string(c.QueryArgs().Peek(name)) }
	families := strings.Split(arg("family"), ",")
	for _, f := range families {
		if !slices.Contains(detailFamilies, f) {
			return core.E(core.Invalid, "family is %.40q, want some of %s", f, strings.Join(detailFamilies, ","))
		}
	}
	want := wanted{topic: arg("topic"), queue: arg("queue"), group: arg("group"), prefix: arg("prefix")}
	if ns := arg("namespace"); ns != "" {
		want.namespaces = []string{ns}
	} else {
		all, err := c.router.Namespaces()
		if err != nil {
			return err
		}
		for _, n := range all {
			want.namespaces = append(want.namespaces, n.Name)
		}
	}
	d := &detail{samples: map[string][]sample{}}
	gather := map[string]func(*detail, *wanted) (truncated bool, err error){"topics": c.detailTopics, "queues": c.detailQueues, "groups": c.detailGroups}
	for _, f := range slices.Compact(slices.Sorted(slices.Values(families))) {
		truncated, err := gather[f](d, &want)
		if err != nil {
			return err
		}
		n := int64(0)
		if truncated {
			n = 1
		}
		d.add("polylog_detail_truncated", labels("family", f), n)
	}
	c.SetContentType("text/plain; version=0.0.4; charset=utf-8")
	c.SetBody(d.write())
	return nil
}

// named reports whether a name is asked for: exact, where that is said, and with the prefix.
func (w *wanted) named(name, exact string) bool {
	return (exact == "" || name == exact) && strings.HasPrefix(name, w.prefix)
}

func (c *call) detailTopics(d *detail, want *wanted) (truncated bool, err error) {
	shown := 0
	for _, ns := range want.namespaces {
		for _, t := range c.router.Topics(ns) {
			if t.Internal || !want.named(t.Name.Name, want.topic) || c.may(router.OpDescribe, router.ResourceTopic, t.Name) != nil {
				continue
			}
			for partition, q := range t.Partitions {
				if shown++; shown > maxDetail {
					return true, nil
				}
				head, err := c.router.Head(q)
				if core.KindOf(err) == core.NotFound {
					break // deleted just now
				}
				if err != nil {
					return false, err
				}
				l := labels("namespace", ns, "topic", t.Name.Name, "partition", strconv.Itoa(partition))
				d.add("polylog_detail_topic_messages", l, int64(head.End-head.Start))
				d.add("polylog_detail_topic_next_offset", l, int64(head.End))
				d.add("polylog_detail_topic_bytes", l, head.Bytes)
			}
		}
	}
	return false, nil
}

func (c *call) detailQueues(d *detail, want *wanted) (truncated bool, err error) {
	qs, truncated, err := c.wantedQueues(want)
	if err != nil {
		return false, err
	}
	counts := make([]router.QueueCounts, len(qs))
	errs := make([]error, len(qs))
	var wg sync.WaitGroup
	for n := range detailAsks {
		wg.Go(func() {
			for i := n; i < len(qs); i += detailAsks {
				if !qs[i].GroupOnly {
					counts[i], errs[i] = c.router.CountQueue(c.ctx, qs[i].ID, "")
				}
			}
		})
	}
	wg.Wait()
	for i, q := range qs {
		head, err := c.router.Head(q.ID)
		if core.KindOf(errs[i]) == core.NotFound || core.KindOf(err) == core.NotFound && errs[i] == nil {
			continue // deleted just now
		}
		if errs[i] != nil {
			return false, errs[i]
		}
		if err != nil {
			return false, err
		}
		l := labels("namespace", q.Name.Namespace, "queue", q.Name.Name)
		d.add("polylog_detail_queue_messages_ready", l, counts[i].Ready)
		d.add("polylog_detail_queue_messages_unacknowledged", l, counts[i].Unsettled)
		d.add("polylog_detail_queue_messages_delayed", l, counts[i].Delayed)
		d.add("polylog_detail_queue_consumers", l, int64(counts[i].Consumers))
		d.add("polylog_detail_queue_bytes", l, head.Bytes)
	}
	return truncated, nil
}

// wantedQueues are the queues that are asked for, by name, up to the bound.
func (c *call) wantedQueues(want *wanted) (qs []*router.Queue, truncated bool, err error) {
	for _, ns := range want.namespaces {
		for after, last := "", false; !last; {
			names := []string{want.queue}
			last = want.queue != ""
			if !last {
				if names, err = c.router.QueueNames(ns, after, detailChunk); err != nil {
					return nil, false, err
				}
				if last = len(names) < detailChunk; !last {
					after = names[len(names)-1]
				}
			}
			for _, name := range names {
				n := core.Name{Namespace: ns, Name: name}
				if !want.named(name, want.queue) || c.may(router.OpDescribe, router.ResourceQueue, n) != nil {
					continue
				}
				q, err := c.router.Queue(n)
				if core.KindOf(err) == core.NotFound {
					continue
				}
				if err != nil {
					return nil, false, err
				}
				if len(qs) == maxDetail {
					return qs, true, nil
				}
				qs = append(qs, q)
			}
		}
	}
	return qs, false, nil
}

func (c *call) detailGroups(d *detail, want *wanted) (truncated bool, err error) {
	groups, err := c.router.Groups()
	if err != nil {
		return false, err
	}
	shown := 0
	for _, g := range groups {
		if !want.named(g.Name, want.group) {
			continue
		}
		offsets, err := c.router.Offsets(g.Name)
		if err != nil {
			return false, err
		}
		for _, o := range offsets {
			n := o.Topic.Name
			if want.topic != "" && n.Name != want.topic || !slices.Contains(want.namespaces, n.Namespace) ||
				c.may(router.OpDescribe, router.ResourceTopic, n) != nil {
				continue
			}
			if shown++; shown > maxDetail {
				return true, nil
			}
			head, err := c.router.Head(o.Queue)
			if core.KindOf(err) == core.NotFound {
				continue
			}
			if err != nil {
				return false, err
			}
			l := labels("group", g.Name, "namespace", n.Namespace, "topic", n.Name, "partition", strconv.Itoa(int(o.Partition)))
			d.add("polylog_detail_group_lag_messages", l, max(0, int64(head.End-o.Offset)))
			d.add("polylog_detail_group_offset", l, int64(o.Offset))
		}
	}
	return false, nil
}
