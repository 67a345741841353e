package state

import (
	"slices"

	"polylog/core"
	"polylog/core/message"
)

// passage is one message on its way to queues: one record in the log, and the keys that it
// is routed by.
type passage struct {
	keys [][]byte // the routing key, then others (AMQP's CC and BCC); at least one
	run  core.Run // of one record; its Offset counts for nothing
	// batch is what it was published as, in the entry that is being applied; nil where the
	// message is known by reference only, as a dead letter is.
	batch []byte
	dead  *deadLetter // what happened to it, where it is dead; else nil
	// refusals are those of the published message and of all letters that they led to; nil
	// before the first one.
	refusals *refusals
	// ripe says that it was held back already, so that no exchange does so again, and that of
	// its body the size only is known.
	ripe bool
	size int64

	read   bool
	broken bool // first cannot be read
	first  core.Record
	// headers are those of the message, typed, once a headers exchange has asked for them.
	typed   bool
	headers message.Table
}

// begin makes p another message, keeping its memory.
func (p *passage) begin(run core.Run, batch []byte) {
	p.run, p.batch, p.dead, p.refusals, p.ripe, p.read, p.typed = run, batch, nil, nil, false, false, false
}

// record is the message itself, valid as long as the entry; nil when it is not at hand.
func (p *passage) record() *core.Record {
	if !p.read && p.batch != nil {
		p.read = true
		p.broken = core.FirstRecord(p.batch, &p.first) != nil
	}
	if !p.read || p.broken {
		return nil
	}
	return &p.first
}

// setRecord is begin for a record that was read already.
func (p *passage) setRecord(run core.Run, r *core.Record) {
	p.run, p.batch, p.dead, p.refusals, p.ripe, p.read, p.typed = run, nil, nil, nil, false, true, false
	p.broken, p.first = false, *r
}

// table is the message's headers.
func (p *passage) table() message.Table {
	if !p.typed {
		p.typed, p.headers = true, nil
		if r := p.record(); r != nil {
			p.headers = message.Read(r).Headers
		}
	}
	return p.headers
}

// matching finds where messages go, one at a time. A queue is found once, whatever number of
// ways leads there. What is found is a stack, since putting one message where it belongs may
// have others routed.
type matching struct {
	s       *State
	at      *cursor
	serial  uint64
	found   int // destinations that the exchange at hand had, those found before included
	work    []*exchange
	queues  []core.QueueID
	topics  []*Topic
	holders []*exchange  // exchanges that hold the message back
	begun   destinations // of the message at hand
}

// destinations are a stretch of matching's stacks: where a message is to go.
type destinations struct{ queues, queuesEnd, topics, topicsEnd, holders, holdersEnd int }

func (d destinations) len() int {
	return d.queuesEnd - d.queues + d.topicsEnd - d.topics + d.holdersEnd - d.holders
}

// top is a stretch of nothing at the end of what was found so far.
func (m *matching) top() destinations {
	q, t, h := len(m.queues), len(m.topics), len(m.holders)
	return destinations{q, q, t, t, h, h}
}

// begin turns to another message.
func (m *matching) begin(c *cursor) {
	m.at = c
	m.serial++
	m.begun = m.top()
}

// ended is what was found since begin.
func (m *matching) ended() destinations {
	d := m.begun
	d.queuesEnd, d.topicsEnd, d.holdersEnd = len(m.queues), len(m.topics), len(m.holders)
	return d
}

// reach is told of a destination.
func (m *matching) reach(d *destination) {
	if d.gone {
		return
	}
	m.found++
	if d.seen == m.serial {
		return
	}
	d.seen = m.serial
	switch d.kind {
	case toQueue:
		m.queues = append(m.queues, core.QueueID(d.id))
	case toTopic:
		if p, ok := m.s.all.queues.find(core.QueueID(d.id)); ok {
			m.reachTopic(p.topic)
		}
	case toExchange:
		m.work = append(m.work, d.exchange)
	}
}

// reachTopic is told of a topic: the bindings of its exchange get what it gets.
func (m *matching) reachTopic(t *Topic) {
	if slices.Contains(m.topics[m.begun.topics:], t) {
		return
	}
	m.topics = append(m.topics, t)
	if x := m.s.routing.taps[t.Queues[0]]; x != nil {
		m.work = append(m.work, x)
	}
}

// exchanges goes on until every exchange that was reached has said where to.
func (m *matching) exchanges(v *vhost, p *passage) {
	for len(m.work) > 0 {
		x := m.work[len(m.work)-1]
		m.work = m.work[:len(m.work)-1]
		if x.gone || x.seen == m.serial {
			continue
		}
		x.seen = m.serial
		if x.Type == TypeDelayed && dueOf(m.at, p) > m.at.time {
			m.holders = append(m.holders, x)
			continue
		}
		m.found = 0
		if x.Topic != 0 {
			m.found++
			if at, ok := m.s.all.queues.find(x.Topic); ok {
				m.reachTopic(at.topic)
			}
		}
		x.table.match(p, m)
		if m.found > 0 {
			continue
		}
		if name, ok := m.s.alternateOf(x); ok {
			m.alternate(v, name)
		}
	}
}

// alternate goes on with the alternate exchange of one that knew nowhere to send to.
func (m *matching) alternate(v *vhost, name string) {
	if x := v.exchanges[name]; x != nil {
		m.work = append(m.work, x)
	} else if t := m.s.findTopic(v, []byte(name)); t != nil {
		m.reachTopic(t)
	}
}

// alternateOf is the exchange that gets what x knows no destination for: its own argument
// says so, or else the policy that applies to it.
func (s *State) alternateOf(x *exchange) (name string, ok bool) {
	if v, ok := x.Arguments.Get(ArgAlternate); ok {
		return v.Str(), true
	}
	if x.policies != s.policies { // patterns are slow: once for each change of policies
		x.policies, x.policy = s.policies, s.policies.ofExchange(x.Name)
	}
	if x.policy == nil {
		return "", false
	}
	v, ok := x.policy.Definition.Get(ArgAlternate)
	return v.Str(), ok
}

// named finds the queue or topic that each key is the name of: the default exchange.
func (m *matching) named(tx txn, v *vhost, p *passage) error {
	for _, key := range p.keys {
		q, err := m.s.findQueue(tx, v, key)
		if err != nil {
			return err
		}
		if q == 0 {
			if t := m.s.findTopic(v, key); t != nil {
				m.reachTopic(t)
			}
		} else if !slices.Contains(m.queues[m.begun.queues:], q) {
			m.queues = append(m.queues, q)
		}
	}
	m.exchanges(v, p) // of topics
	return nil
}

// match finds the destinations of a message, which stay until drop. found is false where
// there is no such exchange.
func (s *State) match(tx txn, c *cursor, v *vhost, exchange []byte, p *passage) (d destinations, found bool, err error) {
	m := &s.routing.match
	m.begin(c)
	x := v.exchanges[string(exchange)]
	switch {
	case x != nil:
		m.work = append(m.work, x)
		m.exchanges(v, p)
	case len(exchange) == 0:
		err = m.named(tx, v, p)
	default:
		t := s.findTopic(v, exchange)
		if t == nil {
			return m.begun, false, nil
		}
		m.reachTopic(t)
	}
	return m.ended(), true, err
}

// matchTap finds the destinations of a record that was appended to a topic.
func (s *State) matchTap(c *cursor, t *Topic, x *exchange, p *passage) destinations {
	m := &s.routing.match
	m.begin(c)
	m.topics = append(m.topics, t) // the first one: it has it already
	m.work = append(m.work, x)
	m.exchanges(s.routing.vhosts[t.Name.Namespace], p)
	return m.ended()
}

// drop forgets destinations, and those that were found after them.
func (m *matching) drop(d destinations) {
	m.queues, m.topics, m.holders = m.queues[:d.queues], m.topics[:d.topics], m.holders[:d.holders]
}

// routed is what became of a message.
type routed struct {
	queues   int  // queues and topics that it was for, and exchanges that hold it back
	rejected bool // by at least one of them
}

// routeTo routes a message from an exchange and puts it where it belongs. found is false
// where there is no such exchange. Messages come this way that are in the log already.
func (s *State) routeTo(tx txn, c *cursor, namespace, exchange string, p *passage) (r routed, found bool, err error) {
	v := s.routing.vhosts[namespace]
	if v == nil {
		return r, false, nil
	}
	d, found, err := s.match(tx, c, v, []byte(exchange), p)
	if err == nil && found {
		r, err = s.deliver(tx, c, p, d)
	}
	s.routing.match.drop(d)
	return r, found, err
}

// deliver puts a message into the queues and topics that were found for it.
func (s *State) deliver(tx txn, c *cursor, p *passage, d destinations) (r routed, err error) {
	m := &s.routing.match
	r.queues = d.len()
	for i := d.queues; i < d.queuesEnd; i++ {
		refused, err := s.arrive(tx, c, m.queues[i], p)
		if err != nil {
			return r, err
		}
		r.rejected = r.rejected || refused
	}
	for i := d.topics; i < d.topicsEnd; i++ {
		if err := s.appendToTopic(tx, c, m.topics[i], p); err != nil {
			return r, err
		}
	}
	for i := d.holders; i < d.holdersEnd; i++ {
		if err := s.holdBack(tx, c, m.holders[i], p); err != nil {
			return r, err
		}
	}
	return r, nil
}

// appendToTopic appends a message to the partition that its key belongs to.
func (s *State) appendToTopic(tx txn, c *cursor, t *Topic, p *passage) error {
	var key []byte
	run := p.run
	if r := p.record(); r != nil {
		if key = r.Key; r.Time >= 0 {
			run.MaxTime = r.Time
		}
	} else {
		key = p.keys[0]
	}
	var at int
	if key != nil {
		at = core.PartitionOf(key, len(t.Queues))
	} else {
		at = int(place(c, p) % uint64(len(t.Queues)))
	}
	if err := s.appendOne(tx, t.Queues[at], run); err != nil {
		return err
	}
	return s.tapRecord(tx, c, t, p)
}

// place is a number that is as good as a random one, the same on every replica.
func place(c *cursor, p *passage) uint64 {
	return mix(uint64(c.index)<<20 ^ uint64(p.run.Index)<<40 ^ uint64(p.run.Pos)<<8 ^ uint64(p.run.First))
}

// appendOne appends a run to a queue that exists.
func (s *State) appendOne(tx txn, q core.QueueID, run core.Run) error {
	_, err := tx.Append(q, run)
	if err != nil && core.KindOf(err) == core.NotFound { // the first one
		if err = tx.CreateQueue(q); err == nil {
			_, err = tx.Append(q, run)
		}
	}
	if err == nil {
		s.touch(q)
	}
	return err
}
