package state

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"polylog/core"
	"polylog/core/ackset"
	"polylog/core/wire"
	"polylog/index"
)

// The state of acknowledgements is kept for each pair of a queue and a group: which
// offsets are settled, up to where they may have been delivered, and which ones failed
// how often. Like the producers, what is in use is in memory and is written to the KV
// space at checkpoints only; the rest is in the KV space alone.

// acksInMemory bounds the cache, in queues. When it is full it is written out and
// emptied; what is in use comes back with its next command.
const acksInMemory = 1 << 16

// ackQueue is a queue whose groups are in memory.
type ackQueue struct {
	queue  *Queue // nil for a partition of a topic
	groups map[string]*ackGroup
	loaded bool        // groups has all that the KV space has; so the next two are known
	floor  core.Offset // below it every group has settled everything; the end of time without groups
	lowest int         // groups that have settled nothing at it
	used   uint64      // checkpoint round of the last use

	// limits are the queue's, by the policies limitsOf.
	limits    QueueLimits
	limitsOf  *policySet
	head      int64 // when its head timer is due, where headKnown; Never when it has none
	headKnown bool
}

// ackGroup is a group's state on a queue.
type ackGroup struct {
	AckConfig
	acks ackset.Set
	// mark is a bound of what may have been delivered: offsets from there on were not.
	mark     core.Offset
	markTerm core.Term // of the leader that set it
	// failed are the offsets that came back and are not settled; nil when there are none.
	failed map[core.Offset]failure
	// bytes are those of what is not settled, as far as the queue counts them.
	bytes int64
	// aloft and aloftBytes are what was with consumers when a leader of aloftTerm last
	// said it.
	aloft, aloftBytes int64
	aloftTerm         core.Term
	dirty             bool
}

// failure is what is known of an offset that came back.
type failure struct {
	attempts uint32 // failed deliveries that count
	due      int64  // not before, ms; 0: at once
}

type ackKey struct {
	queue core.QueueID
	group string
}

func ackPrefix(q core.QueueID) []byte { return wire.AppendUint64([]byte{prefixAcks}, uint64(q)) }

func (k ackKey) key() []byte { return append(ackPrefix(k.queue), k.group...) }

// acksVersion is that of a group's value which level 2 does not know.
const acksVersion = 2

// A group's value: version byte, ack configuration, mark uvarint and its term uvarint, the
// set, count uvarint; for each failed offset in order: offset uvarint, attempts uvarint, due varint.
// In version 2 bytes, aloft, aloft bytes and aloft term follow, all uvarint.
func (g *ackGroup) encode() []byte {
	counts := [...]uint64{uint64(g.bytes), uint64(g.aloft), uint64(g.aloftBytes), uint64(g.aloftTerm)}
	version := byte(valueVersion)
	if counts != [4]uint64{} {
		version = acksVersion
	}
	b := g.AckConfig.appendTo([]byte{version})
	b = wire.AppendUvarint(b, uint64(g.mark))
	b = wire.AppendUvarint(b, uint64(g.markTerm))
	b = g.acks.AppendTo(b)
	b = wire.AppendUvarint(b, uint64(len(g.failed)))
	for _, o := range slices.Sorted(maps.Keys(g.failed)) {
		f := g.failed[o]
		b = wire.AppendUvarint(b, uint64(o))
		b = wire.AppendUvarint(b, uint64(f.attempts))
		b = wire.AppendVarint(b, f.due)
	}
	if version == acksVersion {
		for _, n := range counts {
			b = wire.AppendUvarint(b, n)
		}
	}
	return b
}

func decodeAckGroup(v []byte) (*ackGroup, error) {
	r := wire.NewReader(v)
	version := r.Byte()
	if version != valueVersion && version != acksVersion {
		return nil, core.E(core.Corrupt, "acks: value of version %d, this binary knows %d", version, acksVersion)
	}
	g := &ackGroup{AckConfig: readAckConfig(&r), mark: core.Offset(r.Uvarint()), markTerm: core.Term(r.Uvarint())}
	acks, err := ackset.Read(&r)
	if err != nil {
		return nil, core.E(core.Corrupt, "acks: %v", err)
	}
	g.acks = *acks
	if n := r.Count(3); n > 0 {
		g.failed = make(map[core.Offset]failure, n)
		for range n {
			o := core.Offset(r.Uvarint())
			g.failed[o] = failure{uint32(r.Uvarint()), r.Varint()}
		}
	}
	if version == acksVersion {
		g.bytes, g.aloft, g.aloftBytes = int64(readOffset(&r)), int64(readOffset(&r)), int64(readOffset(&r))
		g.aloftTerm = core.Term(r.Uvarint())
	}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "acks: %v", err)
	}
	return g, nil
}

// ackQueue is the entry of q in memory, without its groups unless they are there; nil
// when there is no such queue.
func (s *State) ackQueue(tx txn, q core.QueueID) (*ackQueue, error) {
	a := s.acks[q]
	if a == nil {
		a = new(ackQueue)
		if _, topic := s.all.queues.find(q); !topic {
			var err error
			if a.queue, err = ReadQueueByID(tx, q); err != nil || a.queue == nil {
				return nil, err
			}
		}
		s.acks[q] = a
	}
	if a.queue != nil && a.limitsOf != s.policies {
		a.queue.policies, a.limitsOf = s.policies, s.policies
		a.limits = a.queue.Effective()
	}
	a.used = s.round
	return a, nil
}

// deliveryLimit is that of one of the queue's groups; 0: none.
func (a *ackQueue) deliveryLimit(g *ackGroup) int {
	if g.DeliveryLimit == 0 && a.queue != nil && g == a.groups[""] {
		return max(a.limits.DeliveryLimit, 0)
	}
	return g.DeliveryLimit
}

// ackGroups is ackQueue with all groups.
func (s *State) ackGroups(tx txn, q core.QueueID) (*ackQueue, error) {
	a, err := s.ackQueue(tx, q)
	if err != nil || a == nil || a.loaded {
		return a, err
	}
	if a.groups, err = readAckGroups(tx, q, a.queue); err != nil {
		return nil, err
	}
	a.loaded = true
	a.findFloor()
	return a, nil
}

// readAckGroups are the groups of q as the KV space has them. A queue's own group is
// written with its first change only.
func readAckGroups(r index.Reader, q core.QueueID, def *Queue) (map[string]*ackGroup, error) {
	groups := map[string]*ackGroup{}
	if def != nil && !def.GroupOnly {
		groups[""] = &ackGroup{AckConfig: def.AckConfig}
	}
	prefix := ackPrefix(q)
	var bad error
	err := r.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var g *ackGroup
		if g, bad = decodeAckGroup(v); bad == nil {
			groups[string(k[len(prefix):])] = g
		}
		return bad == nil
	})
	return groups, cmp.Or(err, bad)
}

// findFloor looks for the floor.
func (a *ackQueue) findFloor() {
	a.floor, a.lowest = math.MaxInt64, 0
	for _, g := range a.groups {
		switch f := g.acks.Floor(); {
		case f < a.floor:
			a.floor, a.lowest = f, 1
		case f == a.floor:
			a.lowest++
		}
	}
}

// ackChanged notes that the KV space has an older version of a group.
func (s *State) ackChanged(key ackKey, g *ackGroup) {
	if !g.dirty {
		g.dirty = true
		s.dirtyAcks = append(s.dirtyAcks, key)
	}
}

// flushAcks writes what changed to the KV space.
func (s *State) flushAcks(tx txn) {
	for _, key := range s.dirtyAcks {
		if a := s.acks[key.queue]; a != nil {
			if g := a.groups[key.group]; g != nil && g.dirty {
				g.flush(tx, key)
			}
		}
	}
	s.dirtyAcks = s.dirtyAcks[:0]
}

func (g *ackGroup) flush(tx txn, key ackKey) {
	tx.Set(key.key(), g.encode())
	g.acks.Compact()
	g.dirty = false
}

// leaveAcks drops a deleted queue from memory. What it has is written first, as a
// checkpoint would have: what is there to sweep must not depend on checkpoints.
func (s *State) leaveAcks(tx txn, q core.QueueID) {
	a := s.acks[q]
	if a == nil {
		return
	}
	for name, g := range a.groups {
		if g.dirty {
			g.flush(tx, ackKey{q, name})
		}
	}
	delete(s.acks, q)
}

// forgetIdleAcks drops from memory which queues nobody used since the checkpoint before.
// All must have been flushed.
func (s *State) forgetIdleAcks() {
	for q, a := range s.acks {
		if a.used+1 < s.round {
			delete(s.acks, q)
		}
	}
}

// limitAcks keeps the cache from growing without end. No pointer into it may be in use.
func (s *State) limitAcks(tx txn) {
	if len(s.acks) >= acksInMemory {
		s.flushAcks(tx)
		clear(s.acks)
	}
}

// Acks is a group's state on a queue, as a copy.
type Acks struct {
	AckConfig
	Settled *ackset.Set
	Mark    core.Offset // offsets from here on were never delivered
	Failed  []Failed    // in the order of their offsets
	Start   core.Offset // of the queue
	End     core.Offset
}

// Failed is an offset that came back and is not settled.
type Failed struct {
	Offset   core.Offset
	Attempts int   // failed deliveries that count
	Due      int64 // not before, ms; 0: at once
}

// Acks is the state of a group on a queue. The applier waits meanwhile. The error is of
// kind NotFound when there is no such queue or group.
func (s *State) Acks(q core.QueueID, group string) (*Acks, error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	g, err := s.groupForReading(q, group)
	if err != nil {
		return nil, err
	}
	head, _, err := s.store.Queue(q) // zero before the first append
	if err != nil {
		return nil, err
	}
	out := &Acks{AckConfig: g.AckConfig, Settled: g.acks.Clone(), Mark: g.mark, Start: head.Start, End: head.End}
	for _, o := range slices.Sorted(maps.Keys(g.failed)) {
		out.Failed = append(out.Failed, Failed{o, int(g.failed[o].attempts), g.failed[o].due})
	}
	return out, nil
}

// Unsettled is how many offsets of a queue a group has not settled.
func (s *State) Unsettled(q core.QueueID, group string) (int64, error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	g, err := s.groupForReading(q, group)
	if err != nil {
		return 0, err
	}
	head, _, err := s.store.Queue(q)
	return g.unsettled(head.Start, head.End), err
}

// unsettled counts in [start, end).
func (g *ackGroup) unsettled(start, end core.Offset) (n int64) {
	g.acks.Unsettled(start, end, func(sp ackset.Span) { n += sp.Len() })
	return n
}

// AckGroups are the names of the groups of a queue, in order.
func (s *State) AckGroups(q core.QueueID) ([]string, error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	if a := s.acks[q]; a != nil && a.loaded {
		return slices.Sorted(maps.Keys(a.groups)), nil
	}
	def, err := s.queueForReading(q)
	if err != nil {
		return nil, err
	}
	groups, err := readAckGroups(s.store, q, def)
	return slices.Sorted(maps.Keys(groups)), err
}

// groupForReading finds a group without keeping it in memory. The caller holds applying.
func (s *State) groupForReading(q core.QueueID, group string) (*ackGroup, error) {
	if a := s.acks[q]; a != nil && a.loaded {
		if g := a.groups[group]; g != nil {
			return g, nil
		}
		return nil, noAckGroup(q, group)
	}
	def, err := s.queueForReading(q)
	if err != nil {
		return nil, err
	}
	v, ok, err := s.store.Get(ackKey{q, group}.key())
	switch {
	case err != nil:
		return nil, err
	case ok:
		return decodeAckGroup(v)
	case group == "" && def != nil && !def.GroupOnly:
		return &ackGroup{AckConfig: def.AckConfig}, nil
	}
	return nil, noAckGroup(q, group)
}

// queueForReading is the named queue that q is, nil for a partition of a topic.
func (s *State) queueForReading(q core.QueueID) (*Queue, error) {
	if _, topic := s.all.queues.find(q); topic {
		return nil, nil
	}
	def, err := ReadQueueByID(s.store, q)
	if err == nil && def == nil {
		err = core.E(core.NotFound, "queue %d does not exist", q)
	}
	return def, err
}

func noAckGroup(q core.QueueID, group string) *core.Error {
	return core.E(core.NotFound, "queue %d has no group %q", q, group)
}
