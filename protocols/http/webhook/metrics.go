package webhook

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	attempts  *prometheus.CounterVec // by outcome
	latency   prometheus.Histogram
	dropped   prometheus.Counter
	endpoints *prometheus.GaugeVec // by state
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "polylog_webhook_attempts_total", Help: "Requests to endpoints of push subscriptions, by what followed.",
		}, []string{"outcome"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "polylog_webhook_seconds", Help: "Time until an endpoint's answer.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "polylog_webhook_attempts_unwritten_total", Help: "Attempts that could not be written down.",
		}),
		endpoints: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "polylog_webhook_endpoints", Help: "Endpoints that this node, as the leader, pushes to, by state.",
		}, []string{"state"}),
	}
	for _, c := range []prometheus.Collector{m.attempts, m.latency, m.dropped, m.endpoints} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
