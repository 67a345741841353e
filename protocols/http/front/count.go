package front

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// CountBy is an Answered that counts in a vector with one label, the status code. It looks a counter up
// once only: that costs more than all else that counting does.
func CountBy(answers *prometheus.CounterVec) func(status int) {
	var known [600]atomic.Pointer[prometheus.Counter]
	return func(status int) {
		if status < 0 || status >= len(known) {
			answers.WithLabelValues(strconv.Itoa(status)).Inc()
			return
		}
		c := known[status].Load()
		if c == nil {
			c = new(answers.WithLabelValues(strconv.Itoa(status)))
			known[status].Store(c)
		}
		(*c).Inc()
	}
}
