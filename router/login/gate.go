package login

import (
	"net/netip"
	"sync"
	"time"
)

// Gate bounds how fast an address may guess: it may be wrong burst times at once, and once in each
// pause on. Beyond that everything from there is refused, also what would be right: else who guesses
// in time would learn of it. Nobody waits, and nothing is computed.
type Gate struct {
	Clock func() time.Time

	mu     sync.Mutex
	failed map[netip.Addr]time.Time // when the last failure is forgiven, were all forgiven one after another; guarded by mu
}

const (
	burst = 20
	pause = time.Second
	// maxAddresses bounds what is kept. Beyond it some are forgotten: who has more addresses is not
	// slowed down by them.
	maxAddresses = 1 << 16
)

// Open reports whether an address may try.
func (g *Gate) Open(host string) bool {
	at := network(host)
	g.mu.Lock()
	defer g.mu.Unlock()
	until, ok := g.failed[at]
	if ok && !until.After(g.Clock()) {
		delete(g.failed, at)
		ok = false
	}
	return !ok || until.Sub(g.Clock()) < burst*pause
}

// Failed notes that an address was wrong.
func (g *Gate) Failed(host string) {
	at := network(host)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Clock()
	until, ok := g.failed[at]
	if !ok || until.Before(now) {
		until = now
	}
	if g.failed == nil {
		g.failed = map[netip.Addr]time.Time{}
	}
	if !ok && len(g.failed) >= maxAddresses {
		for k, t := range g.failed {
			delete(g.failed, k)
			if t.After(now) {
				break
			}
		}
	}
	g.failed[at] = until.Add(pause)
}

// network is what one customer has: an address, or a network of 64 bits in IPv6. Whatever is no
// address is one together.
func network(host string) netip.Addr {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
