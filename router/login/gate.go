package login

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// Gate bounds how fast an address may guess: for one user it may be wrong 20 times at once, and once a
// second on; for all users together 20 times as much. Beyond that it is refused, also what would be
// right: else who guesses in time would learn of it. Nobody waits, and nothing is computed.
//
// Many may share an address, behind a proxy. Who is wrong there shuts out those of the same name only.
type Gate struct {
	Clock func() time.Time

	mu     sync.Mutex
	seed   maphash.Seed          // guarded by mu, as failed is
	failed map[guesses]time.Time // when the last failure is forgiven, were all forgiven one after another
}

// guesses are those of an address for a user, by a hash of its name; 0: for all users.
type guesses struct {
	at   netip.Addr
	user uint64
}

// How often a guess may be wrong at once, and after how long one is forgiven.
const (
	burst    = 20
	pause    = time.Second
	allBurst = 20 * burst
	allPause = pause / 20
	// maxGuesses bounds what is kept. Beyond it some are forgotten: who has more addresses is not
	// slowed down by them.
	maxGuesses = 1 << 16
)

// Open reports whether an address may try for a user; without a name, for anybody.
func (g *Gate) Open(host, user string) bool {
	at, now := network(host), g.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openLocked(guesses{at, 0}, allBurst*allPause, now) && (user == "" || g.openLocked(guesses{at, g.hashLocked(user)}, burst*pause, now))
}

func (g *Gate) openLocked(k guesses, most time.Duration, now time.Time) bool {
	until, ok := g.failed[k]
	if ok && !until.After(now) {
		delete(g.failed, k)
		return true
	}
	return !ok || until.Sub(now) < most
}

// Failed notes that an address was wrong about a user.
func (g *Gate) Failed(host, user string) {
	at, now := network(host), g.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failedLocked(guesses{at, 0}, allPause, now)
	if user != "" {
		g.failedLocked(guesses{at, g.hashLocked(user)}, pause, now)
	}
}

func (g *Gate) failedLocked(k guesses, pause time.Duration, now time.Time) {
	until, ok := g.failed[k]
	if !ok || until.Before(now) {
		until = now
	}
	if g.failed == nil {
		g.failed = map[guesses]time.Time{}
	}
	if !ok && len(g.failed) >= maxGuesses {
		for k, t := range g.failed {
			delete(g.failed, k)
			if t.After(now) {
				break
			}
		}
	}
	g.failed[k] = until.Add(pause)
}

// hashLocked is never 0. Names are not kept: they are as long as who guesses likes.
func (g *Gate) hashLocked(user string) uint64 {
	if g.seed == (maphash.Seed{}) {
		g.seed = maphash.MakeSeed()
	}
	return maphash.String(g.seed, user) | 1
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
