package mqtt

import (
	"math"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"

	"polylog/core/topicfilter"
)

// sysPrefix begins the topic names of what a node says of itself.
const sysPrefix = "$SYS/"

// sysTopics are the messages under $SYS, under the names that are usual in the field.
// They are this node's, and under names of their own all nodes' (sys_nodes.go), come with QoS 0, are never stored, and count as retained for who
// subscribes. Nothing is computed while nobody asks, but for the averages.
type sysTopics struct {
	srv     *Server
	started time.Time

	mu      sync.Mutex // guards what follows
	loads   []load
	greeted int                          // the most clients at a time
	last    map[string]string            // what was sent last, by name
	others  map[string]map[string]string // what other nodes said, by node and name
}

// load is the moving averages of a counter's growth a minute.
type load struct {
	name   string
	read   func() int64
	before int64
	rates  [3]float64
}

// loadSpans are what the averages are over.
var loadSpans = [3]struct {
	name string
	over time.Duration
}{{"1min", time.Minute}, {"5min", 5 * time.Minute}, {"15min", 15 * time.Minute}}

func newSysTopics(s *Server) *sysTopics {
	m := s.metrics
	y := &sysTopics{srv: s, started: s.opts.Clock(), last: map[string]string{}}
	y.loads = []load{
		{name: "connections", read: m.accepted.Load},
		{name: "messages/received", read: m.packetsIn.Load},
		{name: "messages/sent", read: m.packetsOut.Load},
		{name: "bytes/received", read: m.bytesIn.Load},
		{name: "bytes/sent", read: m.bytesOut.Load},
		{name: "publish/received", read: m.publishesIn},
		{name: "publish/sent", read: m.publishesOut},
		{name: "publish/dropped", read: m.publishesDropped},
	}
	return y
}

// run sends what has changed, each interval, until the server stops.
func (y *sysTopics) run() {
	t := time.NewTicker(y.srv.opts.SysInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			y.tick(y.srv.opts.SysInterval)
		case <-y.srv.quit:
			return
		}
	}
}

// tick ends a span of the averages, and sends what has changed to who subscribes.
func (y *sysTopics) tick(span time.Duration) {
	y.mu.Lock()
	for i := range y.loads {
		y.loads[i].tick(span)
	}
	y.greeted = max(y.greeted, y.srv.greeted())
	y.mu.Unlock()
	if !y.wanted() {
		y.setOthers(nil) // who subscribes next is told nothing old
		return
	}
	y.ask()
	vs := y.values()
	y.mu.Lock()
	before := y.last
	y.last = make(map[string]string, len(vs)) // what is not said any more is new when it is said again
	for _, v := range vs {
		y.last[v.name] = v.value
	}
	y.mu.Unlock()
	for _, v := range vs {
		if value, said := before[v.name]; !said || value != v.value {
			y.send(v)
		}
	}
}

func (l *load) tick(span time.Duration) {
	now := l.read()
	rate := float64(now-l.before) * float64(time.Minute) / float64(span)
	l.before = now
	for i := range l.rates {
		keep := math.Exp(-float64(span) / float64(loadSpans[i].over))
		l.rates[i] = rate + keep*(l.rates[i]-rate)
	}
}

// wanted reports whether a filter of a client here begins with $SYS.
func (y *sysTopics) wanted() bool { return y.srv.subs.sys.Load() > 0 }

// send sends one to the sessions that want it.
func (y *sysTopics) send(v sysValue) {
	m := message{name: v.name, payload: []byte(v.value)}
	hits := map[*session]*delivery{}
	y.srv.subs.mu.RLock()
	y.srv.subs.tree.Match(v.name, func(sub *subscription) {
		d := hits[sub.session]
		if d == nil {
			d = &delivery{version: sub.session.version}
			hits[sub.session] = d
		}
		d.retain = d.retain || sub.retainAsPublished
		if sub.id != 0 {
			d.ids = append(d.ids, sub.id)
		}
	})
	y.srv.subs.mu.RUnlock()
	for s, d := range hits {
		if y.srv.authorizeSys(s.c.principal) == nil {
			s.deliverOnce(&m, d)
		}
	}
}

// greet sends a new subscription those that its filter matches.
func (y *sysTopics) greet(sub *subscription) {
	for _, v := range y.values() {
		if !topicfilter.Match(sub.filter, v.name) {
			continue
		}
		m := message{name: v.name, payload: []byte(v.value)}
		d := delivery{version: sub.session.version, retain: true}
		if sub.id != 0 {
			d.ids = []int{sub.id}
		}
		sub.session.deliverOnce(&m, &d)
	}
}

// sysValue is a message under $SYS.
type sysValue struct{ name, value string }

// own are those of this node, as they are now.
func (y *sysTopics) own() []sysValue {
	s, m := y.srv, y.srv.metrics
	var vs []sysValue
	text := func(name, value string) { vs = append(vs, sysValue{sysBroker + name, value}) }
	number := func(name string, n int64) { text(name, strconv.FormatInt(n, 10)) }
	text("version", strings.TrimSpace("polylog "+s.opts.Version))
	text("uptime", strconv.FormatInt(int64(s.opts.Clock().Sub(y.started)/time.Second), 10)+" seconds")
	connected := s.greeted()
	number("clients/connected", int64(connected))
	number("clients/active", int64(connected))
	number("subscriptions/count", int64(s.subs.len()))
	number("messages/received", m.packetsIn.Load())
	number("messages/sent", m.packetsOut.Load())
	number("bytes/received", m.bytesIn.Load())
	number("bytes/sent", m.bytesOut.Load())
	number("publish/messages/received", m.publishesIn())
	number("publish/messages/sent", m.publishesOut())
	number("publish/messages/dropped", m.publishesDropped())
	heap := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if runtimemetrics.Read(heap); heap[0].Value.Kind() == runtimemetrics.KindUint64 {
		number("heap/current", int64(heap[0].Value.Uint64()))
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	number("clients/maximum", int64(max(y.greeted, connected)))
	for i := range y.loads {
		l := &y.loads[i]
		for k, span := range loadSpans {
			text("load/"+l.name+"/"+span.name, strconv.FormatFloat(l.rates[k], 'f', 2, 64))
		}
	}
	return vs
}
