package kafka

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what the router cannot see. Requests are counted in plain numbers, by
// key, and named when somebody asks.
type metrics struct {
	srv           *Server
	accepted      atomic.Int64
	refused       atomic.Int64
	broken        atomic.Int64 // connections that ended on an error of protocol
	refusedLogins atomic.Int64
	requests      []atomic.Int64

	storageErrors atomic.Int64 // partitions that could not be read
}

var (
	connectionsDesc = desc("connections", "Connections now.")
	acceptedDesc    = desc("connections_total", "Connections that were accepted.")
	refusedDesc     = desc("connections_refused_total", "Connections that were closed at once, as there were too many.")
	brokenDesc      = desc("connection_errors_total", "Connections that were closed because of what their client sent.")
	loginsDesc      = desc("authentication_failures_total", "Clients that did not prove who they are.")
	requestsDesc    = desc("requests_total", "Requests, by API.", "api")
	sessionsDesc    = desc("fetch_sessions", "Fetch sessions now.")
	storageDesc     = desc("storage_errors_total", "Partitions of fetches that could not be read from the log.")
	heldDesc        = desc("fetch_bytes", "Bytes of records in answers that are not sent yet.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("polylog_kafka_"+name, help, labels, nil)
}

func newMetrics(s *Server) *metrics {
	return &metrics{srv: s, requests: make([]atomic.Int64, len(s.apis))}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectionsDesc, acceptedDesc, refusedDesc, brokenDesc, loginsDesc, requestsDesc, sessionsDesc, heldDesc, storageDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	m.srv.mu.Lock()
	conns := len(m.srv.conns)
	m.srv.mu.Unlock()
	gauge(connectionsDesc, int64(conns))
	gauge(sessionsDesc, int64(m.srv.fetchSessions.len()))
	gauge(heldDesc, m.srv.fetchHeld.Load())
	counter(acceptedDesc, m.accepted.Load())
	counter(storageDesc, m.storageErrors.Load())
	counter(refusedDesc, m.refused.Load())
	counter(brokenDesc, m.broken.Load())
	counter(loginsDesc, m.refusedLogins.Load())
	for key := range m.requests {
		if n := m.requests[key].Load(); n > 0 {
			counter(requestsDesc, n, m.srv.apis[key].key.Name())
		}
	}
}
