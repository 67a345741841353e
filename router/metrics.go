package router

import (
	"encoding/binary"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/core"
	"polylog/router/state"
)

// metrics counts what goes through the router. All names begin with polylog_.
type metrics struct {
	produced, producedBytes prometheus.Counter
	consumed, consumedBytes prometheus.Counter
	publishErrors           *prometheus.CounterVec
	readErrors              *prometheus.CounterVec
	publishSeconds          prometheus.Histogram
	readSeconds             prometheus.Histogram
	retained                prometheus.Counter
	deliveries, redelivered prometheus.Counter
	settled, deadLetters    prometheus.Counter
	unroutable, rejected    prometheus.Counter
	expired, queuesExpired  prometheus.Counter
	timersFired             prometheus.Counter
	messagesDue             prometheus.Counter
	messagesLost            prometheus.Counter

	registerer prometheus.Registerer
	collectors []prometheus.Collector
}

// latencyBuckets reach from an answer out of memory to a write that waits for a
// slow disk.
var latencyBuckets = []float64{
	50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.5, 1, 5, 10,
}

func newMetrics(r *Router, reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		produced:       counter("messages_produced_total", "Messages that were stored."),
		producedBytes:  counter("bytes_produced_total", "Bytes of the batches that were stored, as their producers sent them."),
		consumed:       counter("messages_consumed_total", "Messages that were read."),
		consumedBytes:  counter("bytes_consumed_total", "Bytes of the batches that were read."),
		publishErrors:  counterVec("publish_errors_total", "Publishes that were refused or failed, by kind of error."),
		readErrors:     counterVec("read_errors_total", "Reads that failed, by kind of error."),
		publishSeconds: histogram("publish_seconds", "Time from a publish to its confirmation."),
		readSeconds:    histogram("read_seconds", "Time that a read of one queue takes, waiting for records excluded."),
		retained:       counter("retention_trims_total", "Queues that retention made shorter."),
		deliveries:     counter("queue_deliveries_total", "Messages that this node, as the leader, gave to consumers."),
		redelivered:    counter("queue_redeliveries_total", "Those of them that may have been delivered before."),
		settled:        counter("queue_settled_total", "Messages that consumers settled."),
		deadLetters:    counter("queue_dead_letters_total", "Messages that were given up, whether or not another queue took them."),
		unroutable:     counter("unroutable_messages_total", "Messages that were published to an exchange and that no queue or topic was for."),
		rejected:       counter("rejected_messages_total", "Messages that a queue did not take, since it is full."),
		expired:        counter("queue_messages_expired_total", "Messages that were given up because their time was over."),
		queuesExpired:  counter("queues_expired_total", "Queues that were deleted because nobody used them any more."),
		timersFired:    counter("timers_fired_total", "Timers that were due and have been fired, as this node, the leader, proposed it."),
		messagesDue:    counter("mqtt_due_published_total", "Wills and delayed messages of MQTT whose time had come and that this node published: the leader, or who took the client's next connection."),
		messagesLost:   counter("mqtt_due_lost_total", "Wills and delayed messages of MQTT that their topic did not take any more, or that had none."),
		registerer:     reg,
	}
	if reg == nil {
		return m, nil
	}
	m.collectors = []prometheus.Collector{
		m.produced, m.producedBytes, m.consumed, m.consumedBytes, m.publishErrors, m.readErrors,
		m.publishSeconds, m.readSeconds, m.retained, m.deliveries, m.redelivered, m.settled, m.deadLetters,
		m.unroutable, m.rejected,
		m.expired, m.queuesExpired, m.timersFired, m.messagesDue, m.messagesLost,
		gauge("queue_consumers", "Consumers of queues whose dispatcher this node is, as the leader.", func() float64 { return float64(r.hub.consumerCount()) }),
		gauge("feature_level", "Feature level: what every member of the cluster understands.", func() float64 { return float64(r.state.Level()) }),
		counterFunc("mqtt_queued_dropped_total", "Messages that went from the queues of MQTT's filters, unsettled by somebody, since there were too many, or too many bytes of them.", func() float64 { return float64(r.state.MQTTDropped()) }),
		gauge("lease_sessions", "Runs of nodes that may hold leases.", func() float64 { return float64(len(r.state.Sessions())) }),
		gauge("leases_held", "Leases that this node holds.", func() float64 { return float64(r.leases.count()) }),
		gauge("members_away", "Members that leaders have not reached for a while.", func() float64 { return float64(r.awayCount()) }),
		gauge("topics", "Topics.", func() float64 { n, _ := r.state.TopicCount(); return float64(n) }),
		gauge("partitions", "Partitions of all topics.", func() float64 { _, n := r.state.TopicCount(); return float64(n) }),
		gauge("groups", "Groups that have committed offsets.", r.countGroups),
		gauge("waiters", "Requests that wait for queues.", func() float64 { return float64(r.watch.count.Load()) }),
		gauge("first_live_index", "Lowest log index that a queue may refer to; 0 when none does.", func() float64 { return float64(r.state.Store().FirstLive()) }),
		gauge("overlay_bytes", "Memory that the next checkpoint frees.", func() float64 { return float64(r.state.OverlayBytes()) }),
	}
	for i, c := range m.collectors {
		if err := reg.Register(c); err != nil {
			m.collectors = m.collectors[:i]
			m.unregister()
			return nil, err
		}
	}
	return m, nil
}

// unregister lets another router register.
func (m *metrics) unregister() {
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
	m.collectors = nil
}

func (r *Router) countGroups() float64 {
	n := 0
	err := state.ReadGroups(r.state.Store(), func(state.Group) bool { n++; return true })
	if err != nil {
		return -1
	}
	return float64(n)
}

// refused counts a publish that was not done.
func (m *metrics) refused(err error) {
	m.publishErrors.WithLabelValues(core.KindOf(err).Error()).Inc()
}

// published counts a publish that was done.
func (m *metrics) published(messages, bytes int, took time.Duration) {
	m.produced.Add(float64(messages))
	m.producedBytes.Add(float64(bytes))
	m.publishSeconds.Observe(took.Seconds())
}

// routed counts what became of a message.
func (m *metrics) routed(r *Routed) {
	if r.Queues == 0 {
		m.unroutable.Inc()
	}
	if r.Rejected {
		m.rejected.Inc()
	}
}

// read counts one read of a queue.
func (m *metrics) read(items []Batch, bytes int, took time.Duration, err error) {
	if err != nil {
		m.readErrors.WithLabelValues(core.KindOf(err).Error()).Inc()
		return
	}
	if len(items) == 0 {
		return // a look at the end of a queue
	}
	messages := 0
	for _, b := range items {
		messages += int(binary.BigEndian.Uint32(b.Data[core.BatchHeaderLen-4:]))
	}
	m.consumed.Add(float64(messages))
	m.consumedBytes.Add(float64(bytes))
	m.readSeconds.Observe(took.Seconds())
}

// delivered counts a delivery of a queue's message.
func (m *metrics) delivered(again bool) {
	m.deliveries.Inc()
	if again {
		m.redelivered.Inc()
	}
}

// buried counts a message that was given up.
func (m *metrics) buried(f state.Fate) {
	if f == state.Moved || f == state.Dropped {
		m.deadLetters.Inc()
	}
}

const namespace = "polylog"

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counterVec(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{"kind"})
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: latencyBuckets})
}

// counterFunc is a counter that somebody else counts.
func counterFunc(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, value)
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value)
}
