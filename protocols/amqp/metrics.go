package amqp

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/protocols/amqp/spec"
)

// metrics counts what the router cannot see.
type metrics struct {
	srv        *Server
	accepted   atomic.Int64
	refused    atomic.Int64
	opened     atomic.Int64 // handshakes that came to their end
	logins     atomic.Int64 // that were refused
	silent     atomic.Int64
	channels   atomic.Int64 // now
	blocked    atomic.Int64 // now
	headersCut atomic.Int64

	repliesLost atomic.Int64
	ackTimeouts atomic.Int64

	channelErrors    atomic.Int64
	connectionErrors atomic.Int64
}

var (
	connectionsDesc = desc("connections", "Connections now.")
	channelsDesc    = desc("channels", "Open channels now.")
	blockedDesc     = desc("blocked_connections", "Connections now that were told to wait with publishing.")
	heldDesc        = desc("message_bytes", "Bytes of messages that are being received, or are published and not settled yet.")
	acceptedDesc    = desc("connections_total", "Connections that were accepted.")
	openedDesc      = desc("connections_opened_total", "Connections whose handshake came to its end.")
	refusedDesc     = desc("connections_refused_total", "Connections that were closed at once, as there were too many.")
	loginsDesc      = desc("logins_refused_total", "Logins that were refused.")
	silentDesc      = desc("heartbeat_timeouts_total", "Connections that were given up, as nothing was heard from their client.")
	errorsDesc      = desc("errors_total", "Errors that clients were told of, by what they closed: channel or connection.", "closed")
	repliesLostDesc = desc("replies_lost_total", "Answers by direct reply-to that were dropped, as their client did not read.")
	ackTimeoutsDesc = desc("acknowledgement_timeouts_total", "Channels that were closed, as their client kept a delivery for longer than it may.")
	headersCutDesc  = desc("headers_cut_total", "Deliveries whose headers did not fit into a frame and were left out.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("polylog_amqp_"+name, help, labels, nil)
}

// closed counts an error that a client is told of.
func (m *metrics) closed(e *protocolError) {
	switch {
	case e.code == spec.ConnectionForced:
	case e.hard:
		m.connectionErrors.Add(1)
	default:
		m.channelErrors.Add(1)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		connectionsDesc, channelsDesc, blockedDesc, heldDesc, acceptedDesc, openedDesc, refusedDesc, loginsDesc, silentDesc, errorsDesc, headersCutDesc, repliesLostDesc, ackTimeoutsDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v *atomic.Int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	gauge(connectionsDesc, int64(len(m.srv.all())))
	gauge(channelsDesc, m.channels.Load())
	gauge(blockedDesc, m.blocked.Load())
	gauge(heldDesc, m.srv.memory.held())
	counter(acceptedDesc, &m.accepted)
	counter(openedDesc, &m.opened)
	counter(refusedDesc, &m.refused)
	counter(loginsDesc, &m.logins)
	counter(silentDesc, &m.silent)
	counter(errorsDesc, &m.channelErrors, "channel")
	counter(errorsDesc, &m.connectionErrors, "connection")
	counter(headersCutDesc, &m.headersCut)
	counter(repliesLostDesc, &m.repliesLost)
	counter(ackTimeoutsDesc, &m.ackTimeouts)
}
