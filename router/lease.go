package router

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// A lease makes a node the one owner of a name in the cluster: of an MQTT client id, of an
// exclusive queue. Leases hang on a session of the node, which this run of the program
// opens when it wants its first lease. They end when they are released or taken over, and
// all together with the session: when this node closes, when it runs again, when it is
// removed, or when the leader has not reached it for leaseTimeout (lease_watch.go).

// Lease is a name that this node owns, until Lost.
type Lease struct {
	all            *leases
	name           string
	session, claim uint64
	token          uint64
	lost           chan struct{}
	ended          bool   // guarded by all.mu: it was lost to nobody
	whenLost       func() // guarded by all.mu; nil: none
}

// Name is what is owned.
func (l *Lease) Name() string { return l.name }

// Token rises with every change of owner: whoever has a lower one for the same name is not
// the owner any more. It fences what a node does that does not know yet that it has lost.
func (l *Lease) Token() uint64 { return l.token }

// Lost is closed when this node has applied that the name has another owner or none, and
// not by Release. A node that is cut off learns it late: see Confirm.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Ended reports whether it was lost to nobody, but taken away: by EndMQTTClient.
func (l *Lease) Ended() bool {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	return l.ended
}

// WhenLost has fn called on a goroutine of its own when Lost is closed, which may be now.
func (l *Lease) WhenLost(fn func()) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	select {
	case <-l.lost:
		go fn()
	default:
		l.whenLost = fn
	}
}

// loseLocked tells the owner that it is none any more.
func (l *Lease) loseLocked() {
	close(l.lost)
	if l.whenLost != nil {
		go l.whenLost()
	}
}

// Confirm is nil when the lease was valid at some moment after the call. It asks the
// leader. Error kinds: Fenced when it is lost, Unavailable when nobody can tell.
func (l *Lease) Confirm(ctx context.Context) error {
	r := l.all.r
	if err := r.log.ReadIndex(ctx); err != nil {
		return err
	}
	is, err := r.state.Lease(l.name)
	if err == nil && !l.matches(is) {
		err = core.E(core.Fenced, "%.80q has another owner or none", l.name)
	}
	return err
}

func (l *Lease) matches(is *state.Lease) bool {
	return is != nil && is.Node == l.all.node && is.Session == l.session && is.Claim == l.claim
}

// Release gives the name up; where that was done before, or the lease was lost, it does
// nothing. After an error it is tried again in the background.
func (l *Lease) Release(ctx context.Context) error {
	if !l.all.forget(l) {
		return nil
	}
	err := l.all.release(ctx, l)
	if err != nil {
		l.all.abandon(l)
	}
	return err
}

// LeaseOwner is the node that owns a name, as far as this node has applied the log. The
// error is of kind NotFound when none does.
func (r *Router) LeaseOwner(name string) (node string, token uint64, err error) {
	is, err := r.state.Lease(name)
	switch {
	case err != nil:
		return "", 0, err
	case is == nil:
		return "", 0, core.E(core.NotFound, "%.80q has no owner", name)
	}
	return is.Node, is.Token, nil
}

// leaseAttempts bounds how often a session is opened for one acquisition: it may end in
// between.
const leaseAttempts = 3

// AcquireLeaseFor is AcquireLease with takeover, for a user. What is another user's who is still there is
// Denied: a name that it has by such a lease, or as a client id with a stored session of MQTT. An empty
// user is nobody in particular.
func (r *Router) AcquireLeaseFor(ctx context.Context, name, user string) (*Lease, error) {
	return r.leases.acquireSoon(ctx, name, user, true)
}

// AcquireLease makes this node the owner of a name of 1 to 1024 bytes. Where it has an
// owner, which may be this node by another lease, the error is of kind Conflict, unless
// takeover is set: that owner has lost it then. After an error of kind Uncertain the name
// is released in the background in case it was acquired.
func (r *Router) AcquireLease(ctx context.Context, name string, takeover bool) (*Lease, error) {
	return r.leases.acquireSoon(ctx, name, "", takeover)
}

// EndEarlierRun ends what an earlier run of this node owned and never gave up, which the leader
// would find out later: a client that lost its connection with that run finds its names free.
func (r *Router) EndEarlierRun(ctx context.Context) error {
	if earlier, ok := r.state.Sessions()[r.leases.node]; !ok || earlier.Run == r.leases.run {
		return nil
	}
	_, err := r.leases.open(ctx)
	return err
}

// leases are what this run of the node owns.
type leases struct {
	r       *Router
	node    string
	run     string        // names this run
	opening chan struct{} // held by who opens a session
	wake    chan struct{} // wakes keep

	mu        sync.Mutex
	session   uint64 // guarded by mu, as is all below; 0: none is open
	ended     uint64 // this session and earlier ones are known to be over
	claims    uint64 // the last one given
	held      map[uint64]*Lease
	abandoned map[*Lease]struct{} // to be released where the state has them
}

func (a *leases) init(r *Router) {
	a.r, a.node, a.run = r, r.log.ID(), rand.Text()
	a.opening, a.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	a.held, a.abandoned = map[uint64]*Lease{}, map[*Lease]struct{}{}
}

// count is how many leases this node holds.
func (a *leases) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.held)
}

func (a *leases) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// current is the session that is open, or 0.
func (a *leases) current() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// open is this run's session, a new one where there is none.
func (a *leases) open(ctx context.Context) (uint64, error) {
	if n := a.current(); n != 0 {
		return n, nil
	}
	select {
	case a.opening <- struct{}{}:
		defer func() { <-a.opening }()
	case <-ctx.Done():
		return 0, core.E(core.Unavailable, "open session: %v", context.Cause(ctx))
	}
	if n := a.current(); n != 0 {
		return n, nil
	}
	cmd := state.OpenSession{Node: a.node, Run: a.run}
	res, err := a.r.propose(ctx, cmd.Command())
	if err != nil {
		return 0, err
	}
	n, err := state.DecodeNumber(res.Body)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > a.ended {
		a.session = n
	}
	return n, nil
}

// acquireSoon is acquire, again where the session has ended meanwhile, and where the leader
// was lost and a lease that was acquired without our knowing is taken over by the next.
func (a *leases) acquireSoon(ctx context.Context, name, user string, takeover bool) (l *Lease, err error) {
	for range leaseAttempts {
		l, err = a.acquire(ctx, name, user, takeover)
		switch kind := core.KindOf(err); {
		case kind == core.Fenced:
			err = core.E(core.Unavailable, "this node's session ends again and again")
		case kind != core.Uncertain || !takeover || ctx.Err() != nil:
			return l, err
		}
	}
	return nil, err
}

func (a *leases) acquire(ctx context.Context, name, user string, takeover bool) (*Lease, error) {
	session, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	l, err := a.claim(session, name) // first: its loss may be applied before the result is here
	if err != nil {
		return nil, err
	}
	take := state.AcquireLease{Node: a.node, Session: session, Claim: l.claim, Name: name, Takeover: takeover}
	cmd := take.Command()
	if user != "" {
		cmd = (&state.AcquireLeaseFor{AcquireLease: take, User: user}).Command()
	}
	res, err := a.r.propose(ctx, cmd)
	if err == nil {
		l.token, err = state.DecodeNumber(res.Body)
	}
	if err == nil {
		return l, nil
	}
	a.forget(l)
	switch core.KindOf(err) {
	case core.Conflict, core.Invalid, core.TooLarge, core.Unsupported, core.Denied:
	case core.Fenced:
		a.mu.Lock()
		a.overLocked(session)
		a.mu.Unlock()
	default:
		a.abandon(l)
	}
	return nil, err
}

// claim registers a lease that is about to be acquired.
func (a *leases) claim(session uint64, name string) (*Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if session <= a.ended {
		return nil, core.E(core.Fenced, "session %d is over", session)
	}
	a.claims++
	l := &Lease{all: a, name: name, session: session, claim: a.claims, lost: make(chan struct{})}
	a.held[l.claim] = l
	return l, nil
}

// forget takes a lease out of those that can be lost, and reports whether it was there.
func (a *leases) forget(l *Lease) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.held[l.claim]
	delete(a.held, l.claim)
	return ok
}

func (a *leases) release(ctx context.Context, l *Lease) error {
	cmd := state.ReleaseLease{Node: a.node, Session: l.session, Claim: l.claim, Name: l.name}
	_, err := a.r.propose(ctx, cmd.Command())
	if core.KindOf(err) == core.NotFound {
		err = nil
	}
	return err
}

// abandon leaves the release of a lease to keep.
func (a *leases) abandon(l *Lease) {
	a.mu.Lock()
	a.abandoned[l] = struct{}{}
	a.mu.Unlock()
	a.nudge()
}

// overLocked is told that a session is over, and with it those before.
func (a *leases) overLocked(session uint64) {
	a.ended = max(a.ended, session)
	if a.session <= session {
		a.session = 0
	}
	for claim, l := range a.held {
		if l.session <= session {
			delete(a.held, claim)
			l.loseLocked()
		}
	}
}

// applied is told what this node has applied, on the applier's goroutine.
func (a *leases) applied(events []state.LeaseEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range events {
		if e.Node != a.node {
			continue
		}
		l := a.held[e.Claim]
		mine := l != nil && l.session == e.Session
		switch {
		case e.Claim == 0 && e.Lost:
			a.overLocked(e.Session)
		case e.Claim == 0:
			a.nudge() // it may be an earlier run's, applied only now
		case e.Lost && mine:
			delete(a.held, e.Claim)
			l.ended = e.Ended
			l.loseLocked()
		case !e.Lost && !mine && e.Session == a.session:
			// Its acquisition was given up before the command was applied.
			a.abandoned[&Lease{all: a, name: e.Name, session: e.Session, claim: e.Claim}] = struct{}{}
			a.nudge()
		}
	}
}

const (
	leaseRetry          = time.Second
	leaseProposeTimeout = 10 * time.Second
)

// keep ends the session of this node's earlier run and releases what was abandoned.
func (a *leases) keep(ctx context.Context) {
	retry := time.NewTimer(0) // first of all: the state may have a session of an earlier run
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-retry.C:
		}
		if err := a.tidy(ctx); err != nil && ctx.Err() == nil {
			a.r.logger.Debug("leases of this node are given up later", "error", err)
			retry.Reset(leaseRetry)
		}
	}
}

func (a *leases) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseProposeTimeout)
	defer cancel()
	if is, ok := a.r.state.Sessions()[a.node]; ok && is.Run != a.run {
		if err := a.r.endSession(ctx, a.node, is.Number); err != nil {
			return err
		}
	}
	a.mu.Lock()
	todo := make([]*Lease, 0, len(a.abandoned))
	for l := range a.abandoned {
		todo = append(todo, l)
	}
	a.mu.Unlock()
	for _, l := range todo {
		// What is not applied here yet comes again, by applied.
		is, err := a.r.state.Lease(l.name)
		if err == nil && l.matches(is) {
			err = a.release(ctx, l)
		}
		if err != nil {
			return err
		}
		a.mu.Lock()
		delete(a.abandoned, l)
		a.mu.Unlock()
	}
	return nil
}

// endSession ends a session, if it is not over.
func (r *Router) endSession(ctx context.Context, node string, session uint64) error {
	cmd := state.EndSession{Node: node, Session: session}
	_, err := r.propose(ctx, cmd.Command())
	if core.KindOf(err) == core.NotFound {
		err = nil
	}
	return err
}

// leaseCloseTimeout bounds how long a node that closes tries to free its leases at once.
const leaseCloseTimeout = time.Second

// close ends the session: others need not wait until this node is missed.
func (a *leases) close() {
	session := a.current()
	if session == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseCloseTimeout)
	defer cancel()
	if err := a.r.endSession(ctx, a.node, session); err != nil {
		a.r.logger.Debug("leases of this node end when it is missed", "error", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.overLocked(session)
}
