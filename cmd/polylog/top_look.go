package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"polylog/cmd/polylog/rest"
	"polylog/router/admin"
)

// figureNames are the figures of a node that top shows.
var figureNames = []string{
	"polylog_messages_produced_total", "polylog_bytes_produced_total", "polylog_messages_consumed_total", "polylog_bytes_consumed_total",
	"polylog_queue_deliveries_total", "polylog_mqtt_messages_sent_total", "polylog_publish_seconds_sum", "polylog_publish_seconds_count",
	"polylog_kafka_connections", "polylog_amqp_connections", "polylog_mqtt_connections", "process_cpu_seconds_total", "process_resident_memory_bytes",
}

// look is what a broker said of itself at a time.
type look struct {
	at     time.Time
	health admin.Health
	nodes  map[string]sampled // figures by node
	topics map[string]*topTopic
	queues []topQueue
	groups map[string]*topGroup
}

// sampled are a node's latest figures.
type sampled struct {
	at     time.Time
	values map[string]float64
}

type topTopic struct {
	Name       string  `json:"name"` // with its namespace, where that is not the default one
	Partitions int     `json:"partitions"`
	Messages   int64   `json:"messages"`
	Bytes      int64   `json:"bytes"`
	In         float64 `json:"inPerSecond"`
	next       int64   // sum of the next offsets
}

type topQueue struct {
	Name string `json:"name"`
	counts
}

type topGroup struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Lag   int64  `json:"lag"`
}

// maxTopQueues bounds how many queues are looked at: the leader is asked for each.
const maxTopQueues = 200

// takeLook asks for everything that top shows.
func takeLook(ctx context.Context, c *rest.Client) (*look, error) {
	l := &look{at: time.Now(), nodes: map[string]sampled{}, topics: map[string]*topTopic{}, groups: map[string]*topGroup{}}
	if err := c.Get(ctx, "/v1/admin/health", nil, &l.health); err != nil {
		return nil, err
	}
	for _, n := range l.health.Nodes {
		if n.Status == nil {
			continue
		}
		s, err := sampleOf(ctx, c, n.ID)
		if err != nil {
			continue // health says what is wrong with it
		}
		l.nodes[n.ID] = s
	}
	if err := l.detail(ctx, c); err != nil {
		return nil, err
	}
	err := c.Each(ctx, c.Path("queues"), url.Values{"counts": {"true"}}, "queues", maxTopQueues, func(one json.RawMessage) error {
		var q queue
		err := json.Unmarshal(one, &q)
		if q.Counts != nil {
			l.queues = append(l.queues, topQueue{q.Name, *q.Counts})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, c.Each(ctx, "/v1/admin/groups", nil, "groups", 0, func(one json.RawMessage) error {
		var g topGroup
		err := json.Unmarshal(one, &g)
		if known := l.groups[g.Name]; known != nil {
			known.State = g.State
		} else {
			l.groups[g.Name] = &g
		}
		return err
	})
}

// sampleOf are a node's figures.
func sampleOf(ctx context.Context, c *rest.Client, node string) (s sampled, err error) {
	var m struct {
		Times  []int64
		Series map[string][]*float64
	}
	since := fmt.Sprint(time.Now().Add(-10 * time.Second).UnixMilli())
	err = c.Get(ctx, "/v1/admin/metrics", url.Values{"node": {node}, "names": {strings.Join(figureNames, ",")}, "since": {since}}, &m)
	if err != nil || len(m.Times) == 0 {
		return s, err
	}
	s = sampled{time.UnixMilli(m.Times[len(m.Times)-1]), map[string]float64{}}
	for name, values := range m.Series {
		if n := len(values); n > 0 && values[n-1] != nil {
			s.values[name] = *values[n-1]
		}
	}
	return s, nil
}

// detail reads the series of single topics and groups.
func (l *look) detail(ctx context.Context, c *rest.Client) error {
	q := url.Values{"family": {"topics,groups"}, "namespace": {cmp.Or(c.Namespace, "default")}}
	resp, err := c.Open(ctx, rest.Request{Path: "/metrics/detail", Query: q})
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return fmt.Errorf("the series of single topics: %w", err)
	}
	topic := func(m *dto.Metric) *topTopic {
		name := labelOf(m, "topic")
		t := l.topics[name]
		if t == nil {
			t = &topTopic{Name: name}
			l.topics[name] = t
		}
		return t
	}
	each := func(name string, do func(*dto.Metric, int64)) {
		for _, m := range families[name].GetMetric() {
			do(m, int64(m.GetGauge().GetValue()))
		}
	}
	each("polylog_detail_topic_messages", func(m *dto.Metric, v int64) {
		t := topic(m)
		t.Partitions, t.Messages = t.Partitions+1, t.Messages+v
	})
	each("polylog_detail_topic_bytes", func(m *dto.Metric, v int64) { topic(m).Bytes += v })
	each("polylog_detail_topic_next_offset", func(m *dto.Metric, v int64) { topic(m).next += v })
	each("polylog_detail_group_lag_messages", func(m *dto.Metric, v int64) {
		name := labelOf(m, "group")
		g := l.groups[name]
		if g == nil {
			g = &topGroup{Name: name}
			l.groups[name] = g
		}
		g.Lag += v
	})
	return nil
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// view is what top shows: a look, and rates since another one.
type view struct {
	Time        time.Time      `json:"time"`
	Cluster     string         `json:"cluster"`
	Leader      string         `json:"leader"`
	Term        uint64         `json:"term"`
	Healthy     bool           `json:"healthy"`
	Problems    []string       `json:"problems"`
	In          float64        `json:"inPerSecond"` // messages
	InBytes     float64        `json:"inBytesPerSecond"`
	Out         float64        `json:"outPerSecond"` // what was read, and what queues and MQTT delivered
	OutBytes    float64        `json:"outBytesPerSecond"`
	PublishMs   float64        `json:"publishMs"` // mean time until a publish was confirmed
	Connections map[string]int `json:"connections"`
	Nodes       []topNode      `json:"nodes"`
	Topics      []*topTopic    `json:"topics"` // the busiest first
	Queues      []topQueue     `json:"queues"` // the fullest first
	Groups      []*topGroup    `json:"groups"` // the farthest behind first
}

type topNode struct {
	ID       string  `json:"id"`
	Role     string  `json:"role"`
	State    string  `json:"state"`
	Behind   uint64  `json:"behind"`
	LogBytes int64   `json:"logBytes"`
	DiskFree int64   `json:"diskFreeBytes"`
	Memory   float64 `json:"memoryBytes"`
	CPU      float64 `json:"cpu"` // cores in use
	In       float64 `json:"inPerSecond"`
	Out      float64 `json:"outPerSecond"`
}

// since is the view of a look, with rates since an earlier one.
func (l *look) since(was *look) *view {
	h := &l.health
	v := &view{
		Time: l.at, Cluster: h.ClusterID, Leader: h.Leader, Term: h.Term, Healthy: h.Healthy, Problems: h.Problems,
		Connections: map[string]int{}, Nodes: []topNode{}, Topics: []*topTopic{}, Queues: append([]topQueue{}, l.queues...), Groups: []*topGroup{},
	}
	published, took := 0.0, 0.0
	for i, n := range h.Nodes {
		t := topNode{ID: n.ID, Role: role(&h.Members[i]), State: "unreachable", LogBytes: -1, DiskFree: -1}
		if st := n.Status; st != nil {
			t.State, t.Behind, t.LogBytes, t.DiskFree = "ready", n.Behind, st.LogBytes, st.DiskFree
			if len(st.NotReady) > 0 {
				t.State = "not ready"
			}
		}
		now, before := l.nodes[n.ID], was.nodes[n.ID]
		rate := func(names ...string) (sum float64) {
			for _, name := range names {
				sum += rateOf(now, before, name)
			}
			return sum
		}
		t.In, t.CPU = rate("polylog_messages_produced_total"), rate("process_cpu_seconds_total")
		t.Out = rate("polylog_messages_consumed_total", "polylog_queue_deliveries_total", "polylog_mqtt_messages_sent_total")
		t.Memory = now.values["process_resident_memory_bytes"]
		v.In, v.Out = v.In+t.In, v.Out+t.Out
		v.InBytes += rate("polylog_bytes_produced_total")
		v.OutBytes += rate("polylog_bytes_consumed_total")
		published, took = published+rate("polylog_publish_seconds_count"), took+rate("polylog_publish_seconds_sum")
		for _, protocol := range []string{"kafka", "amqp", "mqtt"} {
			v.Connections[protocol] += int(now.values["polylog_"+protocol+"_connections"])
		}
		v.Nodes = append(v.Nodes, t)
	}
	if published > 0 {
		v.PublishMs = 1000 * took / published
	}
	seconds := max(l.at.Sub(was.at).Seconds(), 0.001)
	for t := range maps.Values(l.topics) {
		if before := was.topics[t.Name]; before != nil {
			t.In = max(0, float64(t.next-before.next)/seconds)
		}
		v.Topics = append(v.Topics, t)
	}
	slices.SortFunc(v.Topics, func(a, b *topTopic) int {
		return cmp.Or(cmp.Compare(b.In, a.In), cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(v.Queues, func(a, b topQueue) int {
		return cmp.Or(cmp.Compare(b.Ready+b.Unsettled, a.Ready+a.Unsettled), cmp.Compare(a.Name, b.Name))
	})
	v.Groups = slices.Collect(maps.Values(l.groups))
	slices.SortFunc(v.Groups, func(a, b *topGroup) int { return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Name, b.Name)) })
	return v
}

// rateOf is how fast a figure grew between two samples, a second; 0 where there are not two, or the node began anew.
func rateOf(now, before sampled, name string) float64 {
	seconds := now.at.Sub(before.at).Seconds()
	n, ok1 := now.values[name]
	b, ok2 := before.values[name]
	if !ok1 || !ok2 || seconds <= 0 {
		return 0
	}
	return max(0, (n-b)/seconds)
}
