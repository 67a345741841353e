package state

import (
	"cmp"
	"sync/atomic"

	"github.com/tidwall/btree"

	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/core/wire"
	"polylog/index"
)

// Messages for MQTT's sessions are in light queues of the distinct filters that they subscribe
// to, each of which gets what its filter matches. A session is a group on such a queue. A filter
// has one queue for the sessions' own groups, which gets what was published with QoS 1 and 2,
// and one for the groups of shared subscriptions, which gets everything; more of them where it
// has more groups than one queue may have. A queue goes with its last group.
//
// The tree of all filters is in memory. It follows from the KV space alone.

// filterQueue is a queue of a filter, as the tree has it.
type filterQueue struct {
	id core.QueueID
	filterLimits
	shared bool // its groups are those of shared subscriptions
}

// filterLimits are what a filter's queue keeps.
type filterLimits struct {
	messages uint32
	bytes    uint64 // of their payloads; 0: any
}

// filterSpace has the filters of a namespace.
type filterSpace struct {
	tree topicfilter.Tree[filterQueue]
}

// mqtt is what the state has in memory for MQTT.
type mqtt struct {
	s       *State
	spaces  map[string]*filterSpace
	carry   map[core.TopicID]struct{} // topics whose records may have any name
	ended   btree.Set[uint64]         // sessions that Sweep has work with
	found   []filterQueue             // of the record at hand
	dropped atomic.Int64
	away    atomic.Int64 // sessions without a connection; written by Apply
}

func (m *mqtt) init(s *State) {
	m.s, m.spaces, m.carry = s, map[string]*filterSpace{}, map[core.TopicID]struct{}{}
	s.taps = append(s.taps, m)
}

// space is that of a namespace, a new one where it has none.
func (m *mqtt) space(namespace string) *filterSpace {
	sp := m.spaces[namespace]
	if sp == nil {
		sp = new(filterSpace)
		m.spaces[namespace] = sp
	}
	return sp
}

// has reports whether a record of t may match a filter. Records have topic names below the
// topic's own name, but those of topics that are known for others.
func (m *mqtt) has(t *Topic) bool {
	sp := m.spaces[t.Name.Namespace]
	if sp == nil || sp.tree.Len() == 0 || t.Internal {
		return false
	}
	if sp.tree.HasFirst(t.Name.Name) {
		return true
	}
	_, any := m.carry[t.ID]
	return any
}

// match finds the queues of the filters that a record matches, and its topic name.
func (m *mqtt) match(t *Topic, p *passage) (name string) {
	m.found = m.found[:0]
	r := p.record()
	if r == nil {
		return ""
	}
	name, ok := topicfilter.Of(t.Name.Name, r)
	if !ok {
		return ""
	}
	live := topicfilter.LiveOnly(r)
	m.spaces[t.Name.Namespace].tree.Match(name, func(q filterQueue) {
		if q.shared || !live {
			m.found = append(m.found, q)
		}
	})
	return name
}

// count is how many queues would get a record.
func (m *mqtt) count(t *Topic, p *passage) int {
	m.match(t, p)
	return len(m.found)
}

// most bounds count.
func (m *mqtt) most(t *Topic) int { return m.spaces[t.Name.Namespace].tree.Len() }

// route gives a record to the queues of the filters that it matches.
func (m *mqtt) route(tx txn, c *cursor, t *Topic, p *passage) error {
	name := m.match(t, p)
	if len(m.found) == 0 {
		return nil
	}
	said, size := topicfilter.Said(p.record()) == name, len(p.record().Value)
	for _, q := range m.found {
		run := p.run
		run.MaxTime = c.time
		res := m.s.appendRun(tx, q.id, run)
		if res.Err != nil {
			return res.Err
		}
		if !said {
			if err := m.keepName(tx, q.id, res.Offset, t, name); err != nil {
				return err
			}
		}
		if err := m.bound(tx, q, res.Start, res.Offset+1, size); err != nil {
			return err
		}
	}
	return nil
}

// keepName keeps the topic name of a message that does not say it itself: it follows from its
// key and the topic that it is in.
func (m *mqtt) keepName(tx txn, q core.QueueID, o core.Offset, t *Topic, name string) error {
	a, err := m.s.ackQueue(tx, q)
	if err != nil || a == nil {
		return err
	}
	h := History{Exchange: t.Name.Name, Keys: []string{name}}
	tx.Set(historyKey(q, o), h.encode())
	m.s.setDeaths(tx, a)
	return nil
}

// maxOverlong is by how many messages a queue may be too long before the oldest go, all at once.
const maxOverlong = 1024

// bound drops the oldest messages of a queue that is too long, whoever has not settled them. The
// newest one, of size bytes, has just come.
func (m *mqtt) bound(tx txn, q filterQueue, start, end core.Offset, size int) error {
	before := start
	if limit := core.Offset(q.messages); end-start > limit+min(limit/8, maxOverlong) {
		before = end - limit
	}
	if q.bytes > 0 {
		tooHeavy, err := m.weigh(tx, q, start, end-1, size)
		if err != nil {
			return err
		}
		before = max(before, tooHeavy)
	}
	if before == start {
		return nil
	}
	a, err := m.s.ackQueue(tx, q.id)
	if err != nil || a == nil {
		return err
	}
	if err := tx.Trim(q.id, before); err != nil {
		return err
	}
	m.dropped.Add(int64(before - start))
	return m.s.dropBeside(tx, a.queue, start, before)
}

// MQTTDropped is how many messages went from the queues of filters since the program began,
// because there were too many, before everybody had settled them.
func (s *State) MQTTDropped() int64 { return s.mqtt.dropped.Load() }

// Filter queues in the KV space.
const (
	filterOwn    = 0 // of the sessions' own groups
	filterShared = 1
)

// maxFilterGroups bounds the groups of one filter queue.
const maxFilterGroups = maxAckGroups

// filterDef is a filter's queue, as the KV space has it.
type filterDef struct {
	namespace, filter string
	filterQueue
	groups int
}

func filterPrefix(namespace, filter string) []byte {
	return wire.AppendString(wire.AppendString(mqttKey(mqttFilter), namespace), filter)
}

func filterKindPrefix(namespace, filter string, shared bool) []byte {
	kind := byte(filterOwn)
	if shared {
		kind = filterShared
	}
	return append(filterPrefix(namespace, filter), kind)
}

func (f *filterDef) key() []byte {
	return wire.AppendUint64(filterKindPrefix(f.namespace, f.filter, f.shared), uint64(f.id))
}

// A filter queue's value: version byte; groups, messages that it keeps, and bytes, uvarint.
func (f *filterDef) encode() []byte {
	return f.filterLimits.appendTo(wire.AppendUvarint([]byte{valueVersion}, uint64(f.groups)))
}

// appendTo encodes: messages uvarint, and bytes uvarint where they are bounded.
func (l filterLimits) appendTo(b []byte) []byte {
	if b = wire.AppendUvarint(b, uint64(l.messages)); l.bytes > 0 {
		b = wire.AppendUvarint(b, l.bytes)
	}
	return b
}

func decodeFilterDef(k, v []byte) (f filterDef, err error) {
	kr := wire.NewReader(k[2:])
	f.namespace, f.filter = kr.String(), kr.String()
	f.shared, f.id = kr.Byte() == filterShared, core.QueueID(kr.Uint64())
	r := wire.NewReader(v)
	if err := checkVersion(&r, "mqtt filter"); err != nil {
		return f, err
	}
	f.groups, f.messages = int(readUint32(&r)), readUint32(&r)
	if r.Len() > 0 {
		f.bytes = r.Uvarint()
	}
	if err := cmp.Or(kr.Close(), r.Close()); err != nil {
		return f, core.E(core.Corrupt, "mqtt filter: %v", err)
	}
	return f, nil
}

// findFilter is the first of a filter's queues of a kind that wants says yes to; nil when there
// is none.
func findFilter(r index.Reader, namespace, filter string, shared bool, wants func(*filterDef) bool) (found *filterDef, err error) {
	prefix := filterKindPrefix(namespace, filter, shared)
	var bad error
	err = r.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var f filterDef
		if f, bad = decodeFilterDef(k, v); bad != nil {
			return false
		}
		if wants(&f) {
			found = &f
		}
		return found == nil
	})
	return found, cmp.Or(err, bad)
}

// MQTTAway is how many sessions go on without a connection, as of the last applied batch.
func (s *State) MQTTAway() int64 { return s.mqtt.away.Load() }

// replaceAway is told that a session without a connection, if a client has one, is about to be replaced by one that never
// opened it.
func (s *State) replaceAway(tx txn, client core.Name) error {
	m, err := readMQTTSession(tx, client)
	if err == nil && m != nil && m.token == 0 {
		s.mqtt.away.Add(-1)
	}
	return err
}

// loadMQTT takes what is in memory from the KV space.
func (s *State) loadMQTT() error {
	s.mqtt.init(s)
	var bad error
	load := func(kind byte, take func(k, v []byte) error) error {
		prefix := mqttKey(kind)
		err := s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
			bad = take(k, v)
			return bad == nil
		})
		return cmp.Or(err, bad)
	}
	if err := load(mqttFilter, func(k, v []byte) error {
		f, err := decodeFilterDef(k, v)
		if err == nil {
			s.mqtt.space(f.namespace).tree.Add(f.filter, f.filterQueue)
		}
		return err
	}); err != nil {
		return err
	}
	away := int64(0)
	if err := load(mqttSession, func(_, v []byte) error {
		m, err := decodeMQTTSession(core.Name{}, v)
		if err == nil && m.token == 0 {
			away++
		}
		return err
	}); err != nil {
		return err
	}
	s.mqtt.away.Store(away)
	if err := load(mqttEnded, func(k, _ []byte) error {
		r := wire.NewReader(k[2:])
		s.mqtt.ended.Insert(r.Uint64())
		return r.Close()
	}); err != nil {
		return err
	}
	if err := load(mqttNames, func(k, _ []byte) error {
		var id core.TopicID
		if copy(id[:], k[2:]) != len(id) {
			return core.E(core.Corrupt, "topic with mqtt names: %x", k)
		}
		s.mqtt.carry[id] = struct{}{}
		return nil
	}); err != nil {
		return err
	}
	s.publishSweep()
	return nil
}
