package routertest

import (
	"context"
	"sync"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// Log is a replicated log of one node that keeps its entries in memory and applies
// each command at once. It is safe for concurrent use.
type Log struct {
	clock func() time.Time
	state *state.State

	mu      sync.Mutex // guards what follows and makes one applier of the callers
	entries []core.Entry
	term    core.Term
	leader  bool
	cold    bool
	trimmed core.LogIndex
	refuse  error
	members []core.Member

	done    chan func() // confirmations in log order
	stopped chan struct{}
}

func newLog(st *state.State, clock func() time.Time) *Log {
	l := &Log{
		clock: clock, state: st, term: 1, leader: true,
		members: []core.Member{{ID: "1", Addr: "127.0.0.1:7420", Voter: true, Endpoints: map[string]string{}}},
		done:    make(chan func(), 1024), stopped: make(chan struct{}),
	}
	go func() {
		defer close(l.stopped)
		for fn := range l.done {
			fn()
		}
	}()
	return l
}

func (l *Log) close() {
	close(l.done)
	<-l.stopped
}

// SetTerm begins a new term: what comes now has it.
func (l *Log) SetTerm(t core.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = t
}

// SetLeader says whether this node leads. When it does not, proposals are refused.
func (l *Log) SetLeader(leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader = leads
}

// SetEndpoint sets where the node's clients of a listener are sent to.
func (l *Log) SetEndpoint(listener, addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members[0].Endpoints[listener] = addr
}

// SetCold makes reads come from the "disk", into the reader's buffer, where CRCs
// are checked.
func (l *Log) SetCold(cold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cold = cold
}

// Refuse has all proposals fail with err until it is called with nil.
func (l *Log) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

// Damage flips a bit of an entry's data.
func (l *Log) Damage(i core.LogIndex, pos int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	data := append([]byte(nil), l.entries[i-1].Data...)
	data[pos] ^= 1
	l.entries[i-1].Data = data
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
	return l.applyLocked(c)
}

// ProposeAsync implements router.Log.
func (l *Log) ProposeAsync(c core.Command, done func(core.Result, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	res, err := l.applyLocked(c)
	l.done <- func() { done(res, err) }
}

func (l *Log) applyLocked(c core.Command) (core.Result, error) {
	switch {
	case l.refuse != nil:
		return core.Result{}, l.refuse
	case !l.leader:
		return core.Result{}, core.E(core.NotLeader, "this node does not lead")
	}
	data := core.AppendEntryHeader(make([]byte, 0, core.EntryHeaderLen+c.EncodedLen()), l.clock().UnixMilli())
	e := core.Entry{Index: core.LogIndex(len(l.entries) + 1), Term: l.term, Data: core.AppendCommand(data, &c)}
	l.entries = append(l.entries, e)
	return l.state.Apply([]core.Entry{e})[0][0], nil
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
func (l *Log) ReadIndex(context.Context) error { return nil }

// Trim implements router.Log. It only remembers.
func (l *Log) Trim(to core.LogIndex) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimmed = max(l.trimmed, to)
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
	if !l.leader {
		return core.Member{}, false
	}
	return l.members[0], true
}

// IsLeader implements router.Log.
func (l *Log) IsLeader() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

// Members implements router.Log.
func (l *Log) Members() []core.Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]core.Member(nil), l.members...)
}

// ID implements router.Log.
func (l *Log) ID() string { return "1" }

// ClusterID implements router.Log.
func (l *Log) ClusterID() string { return "cm91dGVydGVzdGNsdXN0ZQ" }
