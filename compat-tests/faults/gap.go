package main

import (
	"sync"
	"time"
)

// gaps measures for how long no write was acknowledged. The load always wants to write, so a gap
// is the broker's, or what a client needs to notice that it is there again.
type gaps struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

// ack takes an acknowledgement.
func (g *gaps) ack(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.longest = max(g.longest, now.Sub(g.last))
	g.last = now
}

// begin forgets the gaps before now; one that goes on is measured from its beginning.
func (g *gaps) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.longest = 0
}

// end is the longest gap since begin, the present one included.
func (g *gaps) end(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.longest, now.Sub(g.last))
}
