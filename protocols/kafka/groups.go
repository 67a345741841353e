package kafka

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"polylog/core"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

// groups gives the coordinator of consumer groups its surroundings: a clock, a lock,
// and leadership. Membership belongs to one term of this node as the leader; in the
// next one, here or elsewhere, the groups start without members.
//
// Lock order: groups.mu before conn.mu, which answering a call takes.
type groups struct {
	router *router.Router
	log    *slog.Logger
	wake   chan struct{} // to run, of capacity 1: the next deadline has come nearer, or closed

	mu     sync.Mutex         // guards what follows
	coord  *group.Coordinator // all groups
	term   core.Term          // whose members those are; 0: this node does not lead
	next   time.Time          // when run looks again; zero: when it is woken
	closed bool
}

func newGroups(r *router.Router, log *slog.Logger, cfg group.Config) *groups {
	cfg.Logger = log
	g := &groups{
		router: r,
		log:    log,
		wake:   make(chan struct{}, 1),
		coord:  group.New(cfg),
	}
	r.OnGroupActive(g.active)
	return g
}

// run lets time pass for the groups until close. Who waits in a group hears at once when
// another node is to coordinate.
func (g *groups) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	leader := g.router.LeaderChanged()
	for {
		select {
		case <-timer.C:
		case <-g.wake:
		case <-leader:
			leader = g.router.LeaderChanged()
		}
		wait, closed := g.tick(time.Now())
		switch {
		case closed:
			return
		case wait > 0:
			timer.Reset(wait)
		default:
			timer.Stop()
		}
	}
}

// tick does what is due and tells how long there is nothing to do; 0: until woken.
func (g *groups) tick(now time.Time) (wait time.Duration, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, true
	}
	if !g.followLocked() && g.term != 0 {
		g.next = now.Add(doubtPause)
		return doubtPause, false
	}
	g.coord.Tick(now)
	next, any := g.coord.Next()
	if !any {
		g.next = time.Time{}
		return 0, false
	}
	wait = max(next.Sub(now), time.Millisecond)
	g.next = now.Add(wait)
	return wait, false
}

// doubtPause is after how long run asks again whether this node still leads, where a majority
// has not answered it lately. Nothing tells when it has.
const doubtPause = 100 * time.Millisecond

// followLocked forgets members of a term that is over. It reports whether this node
// coordinates those that are left. While it is only in doubt whether it still leads, it does not,
// and they stay: nobody leads twice in one term, so in this one they can have no other coordinator.
func (g *groups) followLocked() bool {
	leads := g.router.IsLeader()
	if g.term != 0 && (g.closed || !leads && !g.router.IsNamedLeader() || g.router.Term() != g.term) {
		g.log.Info("consumer groups moved to another coordinator", "groups", g.coord.Stats().Groups)
		g.coord.Reset(group.NotCoordinator)
		g.term = 0
	}
	return g.term != 0 && leads
}

// lead makes sure that this node coordinates: it leads, and has applied what others
// committed before. Otherwise it returns the code to answer with.
func (g *groups) lead(ctx context.Context) int16 {
	g.mu.Lock()
	leads := g.followLocked()
	g.mu.Unlock()
	if leads {
		return codeNone
	}
	term := g.router.Term()
	if !g.router.IsLeader() {
		return codeNotCoordinator
	}
	if err := g.router.Sync(ctx); err != nil {
		return codeCoordinatorNotAvailable
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.followLocked() // members of an earlier term may still be there, if this node was in doubt
	if g.closed || !g.router.IsLeader() || g.router.Term() != term {
		return codeNotCoordinator
	}
	g.term = term
	return codeNone
}

// current makes sure that this node coordinates and that its state has everything that
// anybody was told is done: a node that was cut off may think that it leads, a while longer.
// Otherwise it returns the code to answer with.
func (g *groups) current(ctx context.Context) int16 {
	if code := g.lead(ctx); code != codeNone {
		return code
	}
	return groupCode(g.router.Sync(ctx))
}

// do runs fn on the groups, as their coordinator. Otherwise it returns the code to
// answer with.
func (g *groups) do(ctx context.Context, fn func(now time.Time, c *group.Coordinator)) int16 {
	if code := g.lead(ctx); code != codeNone {
		return code
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.followLocked() {
		return codeNotCoordinator
	}
	fn(time.Now(), g.coord)
	if next, any := g.coord.Next(); any && (g.next.IsZero() || next.Before(g.next)) {
		g.next = next
		signal(g.wake)
	}
	return codeNone
}

// active reports whether a group has members: its offsets do not expire.
func (g *groups) active(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.coord.Active(id)
}

// close ends run, and answers everybody that waits, who will find the next coordinator.
func (g *groups) close() {
	g.mu.Lock()
	g.closed = true
	g.followLocked()
	g.mu.Unlock()
	signal(g.wake)
}
