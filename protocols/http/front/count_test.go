package front

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestCountBy: each status has its own counter, whatever it is.
func TestCountBy(t *testing.T) {
	registry := prometheus.NewRegistry()
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "answers"}, []string{"code"})
	registry.MustRegister(v)
	count := CountBy(v)
	for _, status := range []int{200, 404, 200, -1, 1000, 200} {
		count(status)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if want := map[string]float64{"200": 3, "404": 1, "-1": 1, "1000": 1}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
