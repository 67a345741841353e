package peer

import (
	"log/slog"
	"sync"
	"time"
)

// refusals logs why connections are refused, each reason once in a while: a node of
// another cluster tries again for ever.
type refusals struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]time.Time // guarded by mu; by host and reason
}

const (
	refusalPause  = time.Minute
	maxRefusals   = 1000 // reasons remembered; beyond, all are forgotten
	refusalReason = 300  // bytes of a reason that count
)

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, last: map[string]time.Time{}}
}

// say logs that the other side at addr was refused.
func (r *refusals) say(host, addr string, err error) {
	reason := err.Error()
	key := host + " " + reason[:min(len(reason), refusalReason)]
	now := time.Now()
	r.mu.Lock()
	again := now.Sub(r.last[key]) < refusalPause
	if !again {
		if len(r.last) >= maxRefusals {
			clear(r.last)
		}
		r.last[key] = now
	}
	r.mu.Unlock()
	if !again {
		r.log.Warn("node-to-node connection refused", "from", addr, "reason", reason)
	}
}
