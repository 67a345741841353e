package mqtt

import (
	"sync"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
)

// session is what a client subscribes to and what is on its way to it. It ends with its
// connection.
type session struct {
	c          *conn
	srv        *Server
	version    byte
	expiry     uint32 // what CONNECT asked for, seconds
	window     int    // QoS 1 and 2 messages that may be unacknowledged: the client's receive maximum
	maxPacket  int    // the client's, bytes
	aliases    aliasTable
	fanOutMark // the fan-out's

	mu       sync.Mutex // guards what follows
	subs     map[string]*subscription
	inflight map[uint16]exactPhase
	lastID   uint16
	queue    []queued // QoS 1 and 2 messages that wait, in order
	walks    []*retainedWalk
	reading  bool // refill is at work: what comes must queue up
	ended    bool
	records  recordCache // of refill
}

// exactPhase is how far a message with a packet id is.
type exactPhase uint8

const (
	awaitAck  exactPhase = iota // PUBLISH was sent, with QoS 1 or 2
	awaitComp                   // PUBREL was sent
)

// queued is a message that waits for room: where it is in the log, not the message.
type queued struct {
	queue  core.QueueID
	offset core.Offset
	index  core.LogIndex
	qos    byte
	retain bool
	ids    []int
}

// defaultWindow is the window of clients that set none, and the greatest one: what they have
// not acknowledged is in their memory and ours.
const defaultWindow = 1024

func newSession(c *conn, p *packets.Properties) *session {
	s := &session{c: c, srv: c.srv, version: c.version, window: defaultWindow, maxPacket: maxRemaining + 5}
	if c.version == 5 {
		s.expiry = p.SessionExpiryInterval
		if p.ReceiveMaximum > 0 {
			s.window = min(s.window, int(p.ReceiveMaximum))
		}
		s.aliases.most = min(int(p.TopicAliasMaximum), maxOwnAliases)
		if p.MaximumPacketSize > 0 {
			s.maxPacket = int(min(p.MaximumPacketSize, maxRemaining+5))
		}
	}
	return s
}

// close ends the session.
func (s *session) close() {
	s.mu.Lock()
	s.ended = true
	subs := s.subs
	s.subs, s.queue, s.inflight, s.walks = nil, nil, nil, nil
	s.mu.Unlock()
	for _, sub := range subs {
		s.srv.subs.remove(sub)
	}
}

// deliver sends a message, or has it wait, or leaves it out. at is where it is in the log.
func (s *session) deliver(m *message, at queued) {
	d := delivery{version: s.version, qos: at.qos, retain: at.retain, ids: at.ids, now: s.srv.now()}
	if publishSize(m, &d) > s.maxPacket {
		s.srv.metrics.tooLarge.Add(1) // section 3.1.2.11.4: as if it was delivered
		return
	}
	if d.qos == 0 {
		s.deliverOnce(m, &d)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
	case len(s.queue) == 0 && !s.reading && s.roomLocked():
		s.sendLocked(m, &d)
	case len(s.queue) >= s.srv.opts.MaxQueued:
		s.srv.metrics.overflowed.Add(1)
	default:
		s.queue = append(s.queue, at)
	}
}

// appendPublish is called under the outbox's lock.
func (s *session) appendPublish(b []byte, m *message, d *delivery) []byte {
	if s.aliases.most > 0 {
		d.alias, d.aliased = s.aliases.of(m.name)
	}
	return appendPublish(b, m, d)
}

// deliverOnce sends a message with QoS 0, or leaves it out.
func (s *session) deliverOnce(m *message, d *delivery) {
	if s.c.out.tryPut(func(b []byte) []byte { return s.appendPublish(b, m, d) }) {
		s.srv.metrics.sent[0].Add(1)
	} else {
		s.srv.metrics.dropped.Add(1)
	}
}

func (s *session) roomLocked() bool { return len(s.inflight) < s.window && !s.c.out.full() }

// sendLocked sends a message with QoS 1 or 2.
func (s *session) sendLocked(m *message, d *delivery) {
	d.packetID = s.nextIDLocked()
	s.inflight[d.packetID] = awaitAck
	s.c.out.put(func(b []byte) []byte { return s.appendPublish(b, m, d) })
	s.srv.metrics.sent[d.qos].Add(1)
}

// nextIDLocked is a packet id that is not in use. There is one, as the window is smaller
// than their number.
func (s *session) nextIDLocked() uint16 {
	if s.inflight == nil {
		s.inflight = map[uint16]exactPhase{}
	}
	for {
		if s.lastID++; s.lastID == 0 {
			continue // MQTT-2.2.1-2
		}
		if _, used := s.inflight[s.lastID]; !used {
			return s.lastID
		}
	}
}

// acked is a PUBACK or PUBCOMP: the message's way ends.
func (s *session) acked(id uint16) {
	s.mu.Lock()
	_, there := s.inflight[id]
	delete(s.inflight, id)
	s.mu.Unlock()
	if there {
		s.refill()
	}
}

// received is a PUBREC (section 3.5).
func (s *session) received(id uint16, reason byte) {
	s.mu.Lock()
	_, there := s.inflight[id]
	code := byte(0)
	switch {
	case !there:
		code = packets.ErrPacketIdentifierNotFound.Code
	case reason >= packets.ErrUnspecifiedError.Code:
		delete(s.inflight, id)
	default:
		s.inflight[id] = awaitComp
	}
	failed := there && reason >= packets.ErrUnspecifiedError.Code
	s.mu.Unlock()
	if failed {
		s.refill()
		return
	}
	s.c.out.put(func(b []byte) []byte { return appendAck(b, s.version, packets.Pubrel, id, code) })
}

// refillAtOnce bounds what refill reads before it looks again.
const refillAtOnce = 64

// refill sends what waits while there is room. Messages are read without a lock: the fan-out
// does not wait for the disk of whoever is behind.
func (s *session) refill() {
	s.sendRetained()
	for {
		s.mu.Lock()
		n := min(s.window-len(s.inflight), len(s.queue), refillAtOnce)
		if s.reading || s.ended || n <= 0 || !s.roomLocked() {
			s.mu.Unlock()
			return
		}
		s.reading = true
		batch := s.queue[:n:n]
		s.queue = s.queue[n:]
		s.mu.Unlock()

		for i := range batch {
			s.resume(&batch[i])
		}

		s.mu.Lock()
		s.reading = false
		if len(s.queue) == 0 {
			s.queue = nil
			s.records = recordCache{}
		}
		s.mu.Unlock()
	}
}

// resume sends a message that waited.
func (s *session) resume(at *queued) {
	m, ok, err := s.records.read(s.srv, at)
	if err != nil {
		s.srv.metrics.unreadable.Add(1)
		s.srv.log.Error("mqtt message cannot be read", "client", s.c.client, "queue", at.queue, "offset", at.offset, "err", err)
		return
	}
	d := delivery{version: s.version, qos: at.qos, retain: at.retain, ids: at.ids, now: s.srv.now()}
	if !ok || m.expired(d.now) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.sendLocked(m, &d)
	}
}

// recordCache keeps the batch that was read last: what waits lies side by side.
type recordCache struct {
	queue   core.QueueID
	topic   string
	records []core.Record
	m       message
}

// read reads a message. It is false where retention has removed it.
func (rc *recordCache) read(srv *Server, at *queued) (*message, bool, error) {
	if !rc.has(at) {
		if err := rc.load(srv, at); err != nil || !rc.has(at) {
			return nil, false, err
		}
	}
	rc.m.index = at.index
	ok := rc.m.readRecord(rc.topic, &rc.records[at.offset-rc.records[0].Offset])
	return &rc.m, ok, nil
}

func (rc *recordCache) has(at *queued) bool {
	if rc.queue != at.queue || len(rc.records) == 0 {
		return false
	}
	i := at.offset - rc.records[0].Offset
	return i >= 0 && i < core.Offset(len(rc.records)) && rc.records[i].Offset == at.offset
}
