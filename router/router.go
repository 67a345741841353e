package router

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/core"
	"polylog/router/state"
)

// Log is the replicated log, as cluster.Node offers it.
type Log interface {
	// Propose has c committed and applied, and returns Apply's result.
	Propose(ctx context.Context, c core.Command) (core.Result, error)
	// ProposeAsync does the same without waiting. done runs on one goroutine in
	// log order and must not block. c's bytes stay untouched until then.
	ProposeAsync(c core.Command, done func(core.Result, error))
	// ReadAt is n bytes at pos of the data of entry i and the entry's term. The
	// bytes alias an immutable cache or lie in buf, grown if needed.
	ReadAt(i core.LogIndex, pos, n uint32, buf []byte) ([]byte, core.Term, error)
	// Lend is n bytes at pos of the data of entry i, which is applied, as an extent;
	// its first bytes are also read into front. The extent is nil when the entry is
	// better read.
	Lend(i core.LogIndex, pos, n uint32, front []byte) (core.Extent, core.Term, error)
	// FirstAfterTerm is the first index whose term is greater than t, or the one
	// after the last.
	FirstAfterTerm(t core.Term) core.LogIndex
	// ReadIndex returns once this node has applied everything that was
	// committed when it was called.
	ReadIndex(ctx context.Context) error
	// Trim allows the log to drop whole segments whose entries are all <= to.
	Trim(to core.LogIndex)

	// Handle has fn serve the streams that the cluster's nodes open for a service of
	// this node; peer is the other's id. The stream ends with fn's return, and its
	// error reaches the other side with its kind. Before that they are refused with
	// an error of kind Unavailable.
	Handle(service string, fn func(peer string, s core.Stream) error)
	// OpenStream opens a stream for a service of a node, which may be this one. It
	// ends with ctx, which is to be cancelled unless Recv has given an error.
	OpenStream(ctx context.Context, nodeID, service string) (core.Stream, error)
	// AddMember has a node take part: without a vote first, with one when it has
	// caught up. Where it takes part already its address is changed. Only the leader
	// can; it returns when the change is committed.
	AddMember(ctx context.Context, id, addr string) error
	// Contacts are the leader's with all members, itself among them; nil at other nodes.
	Contacts() []core.Contact
	// RemoveMember takes a node out, with its vote. Only the leader can.
	RemoveMember(ctx context.Context, id string) error

	Term() core.Term
	Leader() (core.Member, bool)
	IsLeader() bool
	// LeaderChanged is closed at the next change of Leader or IsLeader; look at them
	// after the call.
	LeaderChanged() <-chan struct{}
	Members() []core.Member
	ID() string
	ClusterID() string
}

// Options are what a Router is made of. Log and State are required.
type Options struct {
	Log        Log
	State      *state.State
	Authorizer Authorizer       // nil asks the users in the log
	Clock      func() time.Time // time.Now when nil
	Logger     *slog.Logger     // discards when nil
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
	// AnonymousUser is the user that clients without credentials are, once there are users. Its
	// tags do not count. Empty: they are refused.
	AnonymousUser string
	// RequireUsers has nobody but users do anything, also before there is one.
	RequireUsers bool
	// Defaults are broker configuration values (see BrokerConfigKeys) from the
	// node's own configuration file; they come after those set at run time.
	Defaults map[string]string
	// RetentionInterval is how often the leader looks for what has expired;
	// log.retention.check.interval.ms when 0, never when negative, and then it does
	// not sweep by itself either.
	RetentionInterval time.Duration
}

// Router is the door. It is safe for concurrent use.
type Router struct {
	log    Log
	state  *state.State
	auth   Authorizer
	clock  func() time.Time
	logger *slog.Logger

	static  map[string]string // Options.Defaults, validated
	brokers brokerCache
	watch   watchers
	tails   tails
	met     *metrics

	// admin orders read-change-propose sequences on topic and broker
	// configuration that start at this node.
	admin sync.Mutex

	pids pidBlock

	// membership orders what changes raft's members and the registry together.
	membership sync.Mutex
	noted      core.LogIndex // guarded by membership; applied after the last NoteMembers
	self       announcement

	digests    digests
	hub        hub
	consumers  consumers
	keeper     keeper
	defs       queueDefs
	leases     leases
	leaseWatch leaseWatch
	claims     claims
	logins     logins

	creating  atomic.Int64  // partitions that are proposed just now
	sweepable chan struct{} // wakes sweepLoop

	activeMu sync.Mutex
	active   func(group string) bool // guarded by activeMu; nil: none is in use

	stop     context.CancelFunc
	loops    sync.WaitGroup
	stopOnce sync.Once
}

// New starts a router. Defaults that do not parse are an error of kind
// core.Invalid.
func New(o Options) (*Router, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Authorizer == nil {
		o.Authorizer = userRights{o.State, o.RequireUsers}
	}
	r := &Router{
		log:    o.Log,
		state:  o.State,
		auth:   o.Authorizer,
		clock:  o.Clock,
		logger: o.Logger,
		static: map[string]string{},

		sweepable: make(chan struct{}, 1),
	}
	for k, v := range o.Defaults {
		if err := CheckBrokerConfig(k, v); err != nil {
			return nil, err
		}
		r.static[k] = v
	}
	r.watch.init()
	r.tails.all = map[*Tail]struct{}{}
	r.self.init()
	r.digests.init()
	r.hub.init(r)
	r.consumers.init(r)
	r.leases.init(r)
	r.claims.init()
	r.logins.init(r, &o)
	r.keeper.init(r)
	met, err := newMetrics(r, o.Registerer)
	if err != nil {
		return nil, err
	}
	r.met = met
	r.state.OnTouched(func(qs []core.QueueID) {
		r.watch.touched(qs)
		r.hub.feed.touched(qs)
		r.tails.touched(qs, r.state.Applied())
		r.wakeSweep()
	})
	r.state.OnTransacted(r.hub.feed.transacted)
	r.state.OnDigest(r.digests.take)
	r.state.OnLeases(r.leases.applied)
	r.state.OnTimers(r.keeper.kick)
	r.state.OnOverfull(func(qs []core.QueueID) { r.keeper.overfull(qs) })
	r.log.Handle(digestService, r.serveDigest)
	r.log.Handle(leaseService, r.serveLeaseRun)
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.loops.Go(func() { r.announceLoop(ctx) })
	r.log.Handle(consumeService, r.serveConsumers)
	r.loops.Go(func() { r.hub.watchLeadership(ctx) })
	r.loops.Go(func() { r.hub.settler.run(ctx) })
	r.loops.Go(func() { r.hub.feed.run(ctx) })
	r.loops.Go(func() { r.hub.timers.run(ctx, r.now) })
	r.loops.Go(func() { r.consumers.keep(ctx) })
	r.loops.Go(func() { r.keeper.run(ctx) })
	r.loops.Go(func() { r.leases.keep(ctx) })
	r.loops.Go(func() { r.logins.run(ctx) })
	if o.RetentionInterval >= 0 {
		r.loops.Go(func() { r.membershipLoop(ctx) })
		r.loops.Go(func() { r.sightingLoop(ctx) })
		r.loops.Go(func() { r.retentionLoop(ctx, o.RetentionInterval) })
		r.loops.Go(func() { r.sweepLoop(ctx) })
		r.loops.Go(func() { r.leaseWatchLoop(ctx) })
	}
	return r, nil
}

// Close stops the router's loops and waits for them. It may be called again.
func (r *Router) Close() {
	r.stopOnce.Do(func() {
		r.claims.close()
		r.stop()
		r.loops.Wait()
		r.leases.close()
		r.digests.close()
		r.met.unregister()
	})
}

// now is the time in ms since the epoch.
func (r *Router) now() int64 { return r.clock().UnixMilli() }

// propose sends a command and returns its result; a refusal by Apply is the error. A command
// that some member does not know yet is Unsupported, and never sent.
func (r *Router) propose(ctx context.Context, c core.Command) (core.Result, error) {
	if err := r.state.Supports(c.Code); err != nil {
		return core.Result{}, err
	}
	res, err := r.log.Propose(ctx, c)
	if err != nil {
		return res, err
	}
	if res.Err != nil {
		return res, res.Err
	}
	return res, nil
}
