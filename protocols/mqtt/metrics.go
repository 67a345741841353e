package mqtt

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what the router cannot see.
type metrics struct {
	srv      *Server
	accepted atomic.Int64
	refused  atomic.Int64
	logins   atomic.Int64 // that were refused
	broken   atomic.Int64 // connections that ended on an error of protocol

	bytesIn    atomic.Int64
	bytesOut   atomic.Int64
	packetsIn  atomic.Int64
	packetsOut atomic.Int64

	received   [3]atomic.Int64 // publishes, by QoS
	sent       [3]atomic.Int64 // deliveries, by QoS
	rejected   atomic.Int64    // publishes that were not stored
	dropped    atomic.Int64    // QoS 0 deliveries to subscribers that do not keep up
	overflowed atomic.Int64    // QoS 1 and 2 deliveries above the queue limit
	tooLarge   atomic.Int64    // deliveries that the client takes no packets as large as
	unnamed    atomic.Int64    // records without an MQTT topic name
	unreadable atomic.Int64    // batches that could not be read
}

var (
	connectionsDesc   = desc("connections", "Connections now.")
	acceptedDesc      = desc("connections_total", "Connections that were accepted.")
	refusedDesc       = desc("connections_refused_total", "Connections that were closed at once, as there were too many.")
	loginsDesc        = desc("logins_refused_total", "Logins that were refused.")
	brokenDesc        = desc("connection_errors_total", "Connections that were closed because of what their client sent.")
	subscriptionsDesc = desc("subscriptions", "Subscriptions of connected clients now.")
	bytesDesc         = desc("bytes_total", "Bytes of clients' connections, by direction: in or out.", "direction")
	packetsDesc       = desc("packets_total", "Packets of clients' connections, by direction: in or out.", "direction")
	receivedDesc      = desc("messages_received_total", "Messages that clients published, by QoS.", "qos")
	sentDesc          = desc("messages_sent_total", "Messages that were sent to subscribers, by QoS.", "qos")
	rejectedDesc      = desc("messages_rejected_total", "Messages that were published and not stored.")
	droppedDesc       = desc("messages_dropped_total", "Deliveries that were left out, by reason: slow (QoS 0, the subscriber does not keep up), queue (QoS 1 and 2, more wait than mqtt-max-queued or mqtt-max-queued-bytes), size (larger than the client takes).", "reason")
	unnamedDesc       = desc("records_unnamed_total", "Records that no subscriber got because their key makes no MQTT topic name.")
	unreadableDesc    = desc("storage_errors_total", "Batches that subscribers did not get because they could not be read from the log.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("polylog_mqtt_"+name, help, labels, nil)
}

func sum(counters ...*atomic.Int64) (n int64) {
	for _, c := range counters {
		n += c.Load()
	}
	return n
}

func (m *metrics) publishesIn() int64  { return sum(&m.received[0], &m.received[1], &m.received[2]) }
func (m *metrics) publishesOut() int64 { return sum(&m.sent[0], &m.sent[1], &m.sent[2]) }
func (m *metrics) publishesDropped() int64 {
	return sum(&m.dropped, &m.overflowed, &m.tooLarge)
}

func newMetrics(s *Server) *metrics { return &metrics{srv: s} }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		connectionsDesc, acceptedDesc, refusedDesc, loginsDesc, brokenDesc, subscriptionsDesc, bytesDesc, packetsDesc, receivedDesc, sentDesc,
		rejectedDesc, droppedDesc, unnamedDesc, unreadableDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	counter := func(d *prometheus.Desc, v *atomic.Int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	gauge(connectionsDesc, m.srv.connected())
	gauge(subscriptionsDesc, m.srv.subs.len())
	counter(acceptedDesc, &m.accepted)
	counter(refusedDesc, &m.refused)
	counter(loginsDesc, &m.logins)
	counter(brokenDesc, &m.broken)
	counter(bytesDesc, &m.bytesIn, "in")
	counter(bytesDesc, &m.bytesOut, "out")
	counter(packetsDesc, &m.packetsIn, "in")
	counter(packetsDesc, &m.packetsOut, "out")
	for qos := range m.received {
		counter(receivedDesc, &m.received[qos], string(rune('0'+qos)))
		counter(sentDesc, &m.sent[qos], string(rune('0'+qos)))
	}
	counter(rejectedDesc, &m.rejected)
	counter(droppedDesc, &m.dropped, "slow")
	counter(droppedDesc, &m.overflowed, "queue")
	counter(droppedDesc, &m.tooLarge, "size")
	counter(unnamedDesc, &m.unnamed)
	counter(unreadableDesc, &m.unreadable)
}
