package httpd

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// The figures of the last minutes are kept in memory while somebody looks at them, so that who looks
// at a chart sees more than the present.

const (
	sampleEvery = 2 * time.Second
	maxSamples  = 450              // 15 minutes
	lookedAt    = 30 * time.Minute // nobody asked for so long: sampling ends
	maxSeries   = 400
)

// history has the figures of one node.
type history struct {
	gather prometheus.Gatherer
	clock  func() time.Time

	mu     sync.Mutex // guards what follows
	times  []int64    // ms; of the samples, the oldest first
	series map[string][]float64
	asked  time.Time
	stop   context.CancelFunc // nil: it does not sample
	closed bool
	loops  sync.WaitGroup
}

// look begins to sample, if that does not happen already, and keeps it going.
func (h *history) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked = time.Now(); h.stop != nil || h.closed {
		return
	}
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	h.times, h.series = nil, map[string][]float64{}
	h.sampleLocked()
	h.loops.Go(func() { h.run(ctx) })
}

// close ends sampling.
func (h *history) close() {
	h.mu.Lock()
	h.closed = true
	if h.stop != nil {
		h.stop()
	}
	h.mu.Unlock()
	h.loops.Wait()
}

func (h *history) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		h.mu.Lock()
		if time.Since(h.asked) > lookedAt {
			h.stop()
			h.stop, h.times, h.series = nil, nil, nil
			h.mu.Unlock()
			return
		}
		h.sampleLocked()
		h.mu.Unlock()
	}
}

// sampleLocked takes a sample. Metrics with labels are summed.
func (h *history) sampleLocked() {
	families, err := h.gather.Gather()
	if err != nil && len(families) == 0 {
		return
	}
	if len(h.times) == maxSamples {
		h.times = slices.Delete(h.times, 0, 1)
		for k, v := range h.series {
			h.series[k] = slices.Delete(v, 0, 1)
		}
	}
	before := len(h.times)
	h.times = append(h.times, h.clock().UnixMilli())
	for _, f := range families {
		for suffix, v := range sumOf(f) {
			name := f.GetName() + suffix
			s, known := h.series[name]
			if !known && len(h.series) == maxSeries {
				continue
			}
			for len(s) < before {
				s = append(s, math.NaN())
			}
			h.series[name] = append(s, v)
		}
	}
	for k, s := range h.series { // what is not there any more
		if len(s) == before {
			h.series[k] = append(s, math.NaN())
		}
	}
}

// sumOf is what the series of a metric are together; of histograms the sum and the number.
func sumOf(f *dto.MetricFamily) map[string]float64 {
	name := f.GetName()
	if !strings.HasPrefix(name, "polylog_") && !strings.HasPrefix(name, "process_") && name != "go_goroutines" {
		return nil
	}
	sums := map[string]float64{}
	for _, m := range f.GetMetric() {
		switch f.GetType() { //nolint:exhaustive // the others are not ours
		case dto.MetricType_COUNTER:
			sums[""] += m.GetCounter().GetValue()
		case dto.MetricType_GAUGE:
			sums[""] += m.GetGauge().GetValue()
		case dto.MetricType_HISTOGRAM:
			sums["_sum"] += m.GetHistogram().GetSampleSum()
			sums["_count"] += float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sums
}

// metricsWanted says which figures of a node.
type metricsWanted struct {
	Names []string `json:"names"` // none: all
	Since int64    `json:"since"` // ms: samples after that
}

// metricsJSON are a node's figures over time. null: there was none.
type metricsJSON struct {
	Node       string                `json:"node"`
	IntervalMs int64                 `json:"intervalMs"`
	Times      []int64               `json:"times"`
	Series     map[string][]*float64 `json:"series"`
}

// localMetrics are this node's figures.
func (a *api) localMetrics(_ context.Context, w metricsWanted) (metricsJSON, error) {
	h := &a.srv.history
	h.look()
	h.mu.Lock()
	defer h.mu.Unlock()
	from, _ := slices.BinarySearch(h.times, w.Since+1)
	j := metricsJSON{Node: a.router.Cluster().NodeID, IntervalMs: sampleEvery.Milliseconds(), Times: slices.Clone(h.times[from:]), Series: map[string][]*float64{}}
	if j.Times == nil {
		j.Times = []int64{}
	}
	for name, s := range h.series {
		if len(w.Names) > 0 && !slices.Contains(w.Names, name) {
			continue
		}
		values := make([]*float64, 0, len(s)-from)
		for _, v := range s[from:] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				values = append(values, nil)
				continue
			}
			values = append(values, &v)
		}
		j.Series[name] = values
	}
	return j, nil
}

// getMetrics gives the figures of a node.
func getMetrics(c *call) error {
	if err := c.onlyQuery("node", "names", "since"); err != nil {
		return err
	}
	if err := c.mayCluster(); err != nil {
		return err
	}
	since, err := c.number("since", 0, 0, math.MaxInt64-1)
	if err != nil {
		return err
	}
	w := metricsWanted{Since: since}
	if names := string(c.QueryArgs().Peek("names")); names != "" {
		w.Names = strings.Split(names, ",")
	}
	j, err := ask(c, string(c.QueryArgs().Peek("node")), opMetrics, w, c.localMetrics)
	if err != nil {
		return err
	}
	return c.answer(200, j)
}
