package routertest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// Log is one node's part of a replicated log in memory: each command is applied by
// every node at once. It is safe for concurrent use.
type Log struct {
	*cluster
	id      string
	state   *state.State
	lent    atomic.Int64                       // extents that were not released
	before  atomic.Pointer[func(core.Command)] // see Before
	next    core.LogIndex                      // guarded by mu, as is all below; the next entry to apply
	held    bool
	waiting int  // in ReadIndex
	alone   bool // cut off from the others
	stale   bool // a majority has not answered it within the lease
	cold    bool
	own     core.Member
	serve   map[string]func(string, core.Stream) error

	done    chan func() // confirmations in log order
	stopped chan struct{}
	streams sync.WaitGroup // handlers at work here
}

func (c *cluster) newLog(id string, st *state.State) *Log {
	l := &Log{
		cluster: c, id: id, state: st, next: 1,
		own:   core.Member{ID: id, Addr: "127.0.0.1:7420", Voter: true, Endpoints: map[string]string{}},
		serve: map[string]func(string, core.Stream) error{},
		done:  make(chan func(), 1024), stopped: make(chan struct{}),
	}
	go func() {
		defer close(l.stopped)
		for fn := range l.done {
			fn()
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, l)
	if c.leader == nil && len(c.nodes) == 1 {
		c.leader = l
	}
	l.applyLocked()
	return l
}

func (l *Log) close() {
	l.mu.Lock()
	l.nodes = slices.DeleteFunc(l.nodes, func(o *Log) bool { return o == l })
	if l.leader == l {
		l.leader = nil
		close(l.changed)
		l.changed = make(chan struct{})
	}
	l.endStreamsLocked(l)
	l.mu.Unlock()
	l.streams.Wait()
	close(l.done)
	<-l.stopped
}

// SetTerm begins a new term: what comes now has it.
func (l *Log) SetTerm(t core.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = t
}

// SetLeader says whether this node leads. When no node does, proposals are refused.
func (l *Log) SetLeader(leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !leads && l.leader == l:
		l.leader = nil
	case leads && l.leader != l:
		l.leader = l
		if len(l.nodes) > 1 {
			l.term++
		}
	default:
		return
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Hold keeps this node from applying what is committed, until Release.
func (l *Log) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// Waiting is the number of calls of ReadIndex that wait for the node to apply more.
func (l *Log) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// Release lets the node apply everything.
func (l *Log) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	l.applyLocked()
}

// Cut separates the node from the others: its streams end, and what needs another node
// fails with kind Unavailable. It goes on applying.
func (l *Log) Cut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alone = cut; cut {
		l.endStreamsLocked(l)
	}
}

// SetFresh says whether a majority has answered the node lately. Where it has not, the node does
// not lead by its own account, though it is still named as the leader, in the same term.
func (l *Log) SetFresh(fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = !fresh
}

// SetEndpoint sets where the node's clients of a listener are sent to.
func (l *Log) SetEndpoint(listener, addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own.Endpoints[listener] = addr
}

// SetCold makes reads come from the "disk", into the reader's buffer, where CRCs
// are checked.
func (l *Log) SetCold(cold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cold = cold
}

// Before has fn called with each command that is proposed from now on without waiting, before it is; nil: no more.
func (l *Log) Before(fn func(core.Command)) {
	if fn == nil {
		l.before.Store(nil)
	} else {
		l.before.Store(&fn)
	}
}

// Refuse has all proposals fail with err until it is called with nil.
func (l *Log) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

// LoseOutcome has the next proposal be done and fail with kind Uncertain.
func (l *Log) LoseOutcome() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loses = true
}

// Damage flips a bit of an entry's data.
func (l *Log) Damage(i core.LogIndex, pos int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	data := append([]byte(nil), l.entries[i-1].Data...)
	data[pos] ^= 1
	l.entries[i-1].Data = data
}

// Data is an entry's data.
func (l *Log) Data(i core.LogIndex) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[i-1].Data
}

// Lose makes an entry one that the log does not have.
func (l *Log) Lose(i core.LogIndex) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[i-1].Data = nil
}

// Last is the index of the newest entry.
func (l *Log) Last() core.LogIndex {
	l.mu.Lock()
	defer l.mu.Unlock()
	return core.LogIndex(len(l.entries))
}

// Trimmed is the highest index that was given to Trim.
func (l *Log) Trimmed() core.LogIndex {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trimmed
}

// Commands is the number of commands with this code so far.
func (l *Log) Commands(code core.Code) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for i := range l.entries {
		// The only errors are those of entries that cannot be applied either.
		_ = l.entries[i].Commands(func(c core.Code, _ []byte, _ uint32) {
			if c == code {
				n++
			}
		})
	}
	return n
}

// Checkpoint makes the state durable, which is what lets the log be trimmed.
func (l *Log) Checkpoint() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cp, err := l.state.Freeze()
	if err != nil {
		return err
	}
	return cp.Write()
}

// Propose implements router.Log.
func (l *Log) Propose(ctx context.Context, c core.Command) (core.Result, error) {
	if err := ctx.Err(); err != nil {
		return core.Result{}, core.E(core.Unavailable, "propose: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proposeLocked(l, c)
}

// ProposeAsync implements router.Log.
func (l *Log) ProposeAsync(c core.Command, done func(core.Result, error)) {
	if before := l.before.Load(); before != nil {
		(*before)(c)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	res, err := l.proposeLocked(l, c)
	l.done <- func() { done(res, err) }
}

// ReadAt implements router.Log.
func (l *Log) ReadAt(i core.LogIndex, pos, n uint32, buf []byte) ([]byte, core.Term, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i == 0 || int(i) > len(l.entries) || l.entries[i-1].Data == nil {
		return nil, 0, core.E(core.NotFound, "no entry %d", i)
	}
	e := l.entries[i-1]
	if uint64(pos)+uint64(n) > uint64(len(e.Data)) {
		return nil, 0, core.E(core.Corrupt, "entry %d has %d bytes, want %d at %d", i, len(e.Data), n, pos)
	}
	data := e.Data[pos:][:n:n]
	if l.cold {
		data = append(buf[:0], data...)
	}
	return data, e.Term, nil
}

// FirstAfterTerm implements router.Log.
func (l *Log) FirstAfterTerm(t core.Term) core.LogIndex {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.Term > t {
			return e.Index
		}
	}
	return core.LogIndex(len(l.entries) + 1)
}

// ReadIndex implements router.Log.
func (l *Log) ReadIndex(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.reachLocked(l); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.applied.Broadcast()
	})
	defer stop()
	l.waiting++
	defer func() { l.waiting-- }()
	for last := core.LogIndex(len(l.entries)); l.next <= last; l.applied.Wait() {
		if ctx.Err() != nil {
			return core.E(core.Unavailable, "read not confirmed: %v", context.Cause(ctx))
		}
	}
	return nil
}

// Trim implements router.Log. It only remembers.
func (l *Log) Trim(to core.LogIndex) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimmed = max(l.trimmed, to)
}

// AddMember implements router.Log: a node that nobody runs, with a vote at once.
func (l *Log) AddMember(_ context.Context, id, addr string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != l {
		return core.E(core.NotLeader, "this node does not lead")
	}
	for _, o := range l.nodes {
		if o.id == id {
			o.own.Addr = addr
			return nil
		}
	}
	l.absent[id] = core.Member{ID: id, Addr: addr, Voter: true}
	return nil
}

// RemoveMember implements router.Log, for nodes that AddMember added.
func (l *Log) RemoveMember(_ context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != l {
		return core.E(core.NotLeader, "this node does not lead")
	}
	delete(l.absent, id)
	return nil
}

// Contacts implements router.Log. Nodes that AddMember added have never answered; the others
// hold everything.
func (l *Log) Contacts() []core.Contact {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != l {
		return nil
	}
	var all []core.Contact
	for _, o := range l.nodes {
		all = append(all, core.Contact{ID: o.id, Held: o.state.Applied()})
	}
	for _, id := range slices.Sorted(maps.Keys(l.absent)) {
		all = append(all, core.Contact{ID: id, Silent: time.Hour})
	}
	return all
}

// Term implements router.Log.
func (l *Log) Term() core.Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

// Leader implements router.Log.
func (l *Log) Leader() (core.Member, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader == nil {
		return core.Member{}, false
	}
	return l.leader.own, true
}

// IsLeader implements router.Log.
func (l *Log) IsLeader() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader == l && !l.stale
}

// LeaderChanged implements router.Log.
func (l *Log) LeaderChanged() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Members implements router.Log.
func (l *Log) Members() []core.Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []core.Member
	for _, o := range l.nodes {
		all = append(all, o.own)
	}
	for _, id := range slices.Sorted(maps.Keys(l.absent)) {
		all = append(all, l.absent[id])
	}
	return all
}

// ID implements router.Log.
func (l *Log) ID() string { return l.id }

// ClusterID implements router.Log.
func (l *Log) ClusterID() string { return "cm91dGVydGVzdGNsdXN0ZQ" }
