package state

import (
	"encoding/binary"
	"maps"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// A lease makes one node the owner of a name: an MQTT client id, an exclusive queue. It
// belongs to a session of its node, which lasts for one run of the node's program at most,
// and is valid while that session is the node's current one: with the end of a session all
// of its leases are free at once, however many they are. What is left of them is removed
// by SweepLeases.

// Session is what a node's leases hang on.
type Session struct {
	Number uint64 // never given twice, and rising
	Run    string // names the run of the node's program that opened it
}

// Lease is who owns a name.
type Lease struct {
	Node    string
	Session uint64
	Claim   uint64 // the owner's own name for it, within the session
	Token   uint64 // rises with every change of owner, of this name and all others
	User    string // that the node has it for; empty: for nobody in particular
}

// LeaseEvent is what has become of a node's session (Claim is 0), or of a lease: it was
// begun, or lost. What an owner gives up itself makes no event.
type LeaseEvent struct {
	Node           string
	Session, Claim uint64
	Name           string // of the lease
	Lost           bool
	Ended          bool // it was taken away, for nobody
}

// Limits of sessions and leases.
const (
	maxSessions  = maxMembers
	maxLeaseText = 1024 // bytes of a name, a node's id, a run
)

// counterLeases numbers sessions and leases alike.
const counterLeases = "lease"

// Keys: which kind, and then the rest.
const (
	leaseByName    = 'l' // <name>: the lease
	leaseBySession = 's' // <session u64> <name>: nothing
	leaseEnded     = 'x' // <session u64>: an ended session that is to be swept, and from which name on
	leaseSession   = 'n' // <node>: its session
)

func leaseKey(name string) []byte { return append([]byte{prefixLease, leaseByName}, name...) }

func sessionKey(node string) []byte { return append([]byte{prefixLease, leaseSession}, node...) }

func endedKey(session uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixLease, leaseEnded}, session)
}

func sessionLeaseKey(session uint64, name string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{prefixLease, leaseBySession}, session), name...)
}

// A lease's value: version byte, node, session, claim and token uvarint, and the user where there is one.
func (l *Lease) encode() []byte {
	b := wire.AppendString([]byte{valueVersion}, l.Node)
	for _, n := range [...]uint64{l.Session, l.Claim, l.Token} {
		b = wire.AppendUvarint(b, n)
	}
	return appendUser(b, l.User)
}

// appendUser appends a user to a value that may end without one.
func appendUser(b []byte, user string) []byte {
	if user == "" {
		return b
	}
	return wire.AppendString(b, user)
}

// readUser reads what appendUser has appended, if it has.
func readUser(r *wire.Reader) string {
	if r.Len() == 0 {
		return ""
	}
	return r.String()
}

func decodeLease(v []byte) (l Lease, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "lease"); err != nil {
		return l, err
	}
	l = Lease{Node: r.String(), Session: r.Uvarint(), Claim: r.Uvarint(), Token: r.Uvarint(), User: readUser(&r)}
	if err := r.Close(); err != nil {
		return l, core.E(core.Corrupt, "lease: %v", err)
	}
	return l, nil
}

// A session's value: version byte, number uvarint, run.
func (s *Session) encode() []byte {
	return wire.AppendString(wire.AppendUvarint([]byte{valueVersion}, s.Number), s.Run)
}

func decodeSession(v []byte) (s Session, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "session"); err != nil {
		return s, err
	}
	s = Session{Number: r.Uvarint(), Run: r.String()}
	if err := r.Close(); err != nil {
		return s, core.E(core.Corrupt, "session: %v", err)
	}
	return s, nil
}

// readLease finds a lease, valid or not; nil when there is none.
func readLease(r index.Reader, name string) (*Lease, error) {
	v, ok, err := r.Get(leaseKey(name))
	if err != nil || !ok {
		return nil, err
	}
	l, err := decodeLease(v)
	return &l, err
}

// Lease is who owns a name, as of the last applied batch; nil when nobody does.
func (s *State) Lease(name string) (*Lease, error) {
	l, err := readLease(s.store, name)
	if err != nil || l == nil || s.Sessions()[l.Node].Number != l.Session {
		return nil, err
	}
	return l, nil
}

// Sessions are the nodes' current sessions, not to be changed.
func (s *State) Sessions() map[string]Session {
	s.view.RLock()
	defer s.view.RUnlock()
	return s.view.sessions
}

// LeasesToSweep reports whether SweepLeases has work.
func (s *State) LeasesToSweep() bool { return s.endedSessions.Load() > 0 }

// OnLeases sets what is told of each applied batch's events, in their order. It is called
// on the applier's goroutine, when readers see the batch, and must not block nor keep the
// slice.
func (s *State) OnLeases(fn func([]LeaseEvent)) { s.onLeases.Store(&fn) }

func (s *State) giveLeaseEvents() {
	if fn := s.onLeases.Load(); fn != nil && len(s.leaseEvents) > 0 {
		(*fn)(s.leaseEvents)
	}
	clear(s.leaseEvents)
	s.leaseEvents = s.leaseEvents[:0]
	if cap(s.leaseEvents) > maxTouched {
		s.leaseEvents = nil
	}
}

// setSessions replaces the sessions by a changed copy: readers keep the one they have.
func (s *State) setSessions(change func(map[string]Session)) {
	all := maps.Clone(s.sessions)
	change(all)
	s.sessions, s.sessionsChanged = all, true
}

func (s *State) loadSessions() error {
	prefix := []byte{prefixLease, leaseSession}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var one Session
		if one, bad = decodeSession(v); bad == nil {
			s.sessions[string(k[len(prefix):])] = one
		}
		return bad == nil
	})
	if err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	prefix = []byte{prefixLease, leaseEnded}
	return s.store.Scan(prefix, after(prefix), func(_, _ []byte) bool {
		s.endedSessions.Add(1)
		return true
	})
}

// endSession frees the leases of a node's session, if it has one.
func (s *State) endSession(tx txn, node string) {
	old, ok := s.sessions[node]
	if !ok {
		return
	}
	s.setSessions(func(all map[string]Session) { delete(all, node) })
	tx.Delete(sessionKey(node))
	tx.Set(endedKey(old.Number), []byte{valueVersion})
	s.endedSessions.Add(1)
	s.leaseEvents = append(s.leaseEvents, LeaseEvent{Node: node, Session: old.Number, Lost: true})
}

// sweepEnded removes leases of the session that ended first. Where it got to is kept: keys
// that were removed stay in the way of a scan until the next checkpoint.
func (s *State) sweepEnded(tx txn, c *cursor, limit int) error {
	var session uint64
	var from []byte
	prefix := []byte{prefixLease, leaseEnded}
	err := tx.Scan(prefix, after(prefix), func(k, v []byte) bool {
		session = binary.BigEndian.Uint64(k[len(prefix):])
		from = append(from, v[1:]...)
		return false
	})
	if err != nil || session == 0 {
		return err
	}
	of := sessionLeaseKey(session, "")
	keys, err := scanKeys(tx, append(sessionLeaseKey(session, ""), from...), after(of), limit)
	if err != nil {
		return err
	}
	work := limit
	for i, k := range keys {
		name := string(k[len(of):])
		l, err := readLease(tx, name)
		if err != nil {
			return err
		}
		if l != nil && l.Session == session {
			n, err := s.deleteOwnedQueues(tx, name, max(work, 1))
			if err != nil {
				return err
			}
			if work -= n; work <= 0 { // the lease stays until it has no queues
				tx.Set(endedKey(session), append([]byte{valueVersion}, name...))
				return nil
			}
			if err := s.mqttLeaseGone(tx, c, name, l.Token); err != nil {
				return err
			}
			tx.Delete(leaseKey(name))
		}
		tx.Delete(k)
		if work--; work <= 0 && i+1 < len(keys) {
			tx.Set(endedKey(session), append([]byte{valueVersion}, name...))
			return nil
		}
	}
	if len(keys) < limit {
		tx.Delete(endedKey(session))
		s.endedSessions.Add(-1)
		return nil
	}
	last := keys[len(keys)-1]
	tx.Set(endedKey(session), append([]byte{valueVersion}, last[len(of):]...))
	return nil
}
