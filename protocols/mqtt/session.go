package mqtt

import (
	"sync"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
)

// session is what a client subscribes to and what is on its way to it. It ends with its
// connection; what goes on is in the log (durable.go).
type session struct {
	c          *conn
	srv        *Server
	version    byte
	expiry     uint32 // what CONNECT asked for, seconds
	window     int    // QoS 1 and 2 messages that may be unacknowledged: the client's receive maximum
	maxPacket  int    // the client's, bytes
	keeps      bool   // it may outlive the connection: all of it is in the log
	stored     bool   // something of it is
	turn       int    // of drain's
	lastRead   *feed  // the same
	pumps      sync.WaitGroup
	aliases    aliasTable
	fanOutMark // the fan-out's

	mu       sync.Mutex // guards what follows
	subs     map[string]*subscription
	inflight map[uint16]flight
	sends    uint64              // of the message that was sent last
	hints    map[hint]hinted     // what an earlier connection sent, and this one has not yet
	reserved map[uint16]struct{} // the packet ids of those
	feeds    []*feed
	line     []*lined // of feeds, not yet sent
	lined    int      // bytes of line
	wanted   bool     // there may be something to take
	taking   bool     // drain is about to take a message, for which there is room
	pumping  bool     // drain is at work
	lastID   uint16
	queue    []queued // QoS 1 and 2 messages that wait, in order
	waiting  int64    // bytes of their payloads
	walks    []*retainedWalk
	owing    []*retainedWalk // those that the log knows of
	reading  bool            // refill is at work: what comes must queue up
	ended    bool
	unacked  []router.MQTTAssigned // when it has ended: what CloseMQTTSession is told
	records  recordCache           // of refill
}

// exactPhase is how far a message with a packet id is.
type exactPhase uint8

const (
	awaitAck  exactPhase = iota // PUBLISH was sent, with QoS 1 or 2
	awaitRel                    // PUBREC came, and is on its way to the log
	awaitComp                   // PUBREL was sent
)

// flight is a message that is on its way to the client.
type flight struct {
	phase exactPhase
	qos   byte
	order uint64 // of sending
	at    place  // of no feed: nothing but this connection knows of it
	owed  bool   // the log knows of the packet id beyond the PUBREC
}

// queued is a message that waits for room: where it is in the log, not the message.
type queued struct {
	queue  core.QueueID
	offset core.Offset
	index  core.LogIndex
	size   int // of the payload
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
	subs, feeds := s.subs, s.feeds
	for _, l := range s.line {
		s.untrackLocked(l.d.packetID) // it was not sent
	}
	s.unacked = s.unackedLocked()
	s.subs, s.queue, s.inflight, s.walks, s.owing, s.feeds, s.line = nil, nil, nil, nil, nil, nil, nil
	s.mu.Unlock()
	for _, f := range feeds {
		f.consumer.Close()
	}
	s.pumps.Wait()
	for _, sub := range subs {
		if sub.share == "" {
			s.srv.subs.remove(sub)
		}
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
		s.sendLocked(m, &d, place{})
	case s.fullLocked():
		s.srv.metrics.overflowed.Add(1)
	default:
		at.size = len(m.payload)
		s.queue = append(s.queue, at)
		s.waiting += int64(at.size)
	}
}

// fullLocked reports whether as much waits as may.
func (s *session) fullLocked() bool {
	o := &s.srv.opts
	return len(s.queue) >= o.MaxQueued || o.MaxQueuedBytes > 0 && s.waiting >= o.MaxQueuedBytes
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

// roomLocked reports whether a message of QoS 1 or 2 may be sent. One more than there is room for
// may, so a client that does not read costs highWater and one message.
func (s *session) roomLocked() bool {
	promised := 0
	for _, one := range [...]bool{s.taking, s.reading} {
		if one {
			promised++
		}
	}
	return len(s.inflight)+promised < s.window && s.lined+s.c.out.unsent() < highWater
}

// sendLocked sends a message with QoS 1 or 2.
func (s *session) sendLocked(m *message, d *delivery, at place) {
	if d.packetID = s.nextIDLocked(); d.packetID == 0 {
		return
	}
	s.trackLocked(d.packetID, flight{qos: d.qos, at: at})
	s.c.out.put(func(b []byte) []byte { return s.appendPublish(b, m, d) })
	s.srv.metrics.sent[d.qos].Add(1)
}

// packetIDs is how many there are.
const packetIDs = 1<<16 - 1

// nextIDLocked is a packet id that is not in use. The window is far smaller than their number, so there is one, unless
// very many are of messages that earlier connections sent: then it is 0, and the connection ends.
func (s *session) nextIDLocked() uint16 {
	if len(s.inflight)+len(s.reserved) >= packetIDs {
		s.c.kick(packets.ErrQuotaExceeded)
		return 0
	}
	for {
		if s.lastID++; s.lastID == 0 {
			continue // MQTT-2.2.1-2
		}
		if _, used := s.reserved[s.lastID]; used {
			continue
		}
		if _, used := s.inflight[s.lastID]; !used {
			return s.lastID
		}
	}
}

// acked is a PUBACK or PUBCOMP: the message's way ends.
func (s *session) acked(id uint16, kind byte) {
	s.mu.Lock()
	fl, there := s.inflight[id]
	if kind == packets.Pubcomp {
		there = there && fl.phase == awaitComp
	} else {
		there = there && fl.qos == 1
	}
	if !there {
		s.mu.Unlock()
		return
	}
	if fl.owed { // the id is free when the log knows
		s.mu.Unlock()
		s.srv.router.CompletedMQTT(s.c.lease, []uint16{id}, func(err error) { s.freed(id, err) })
		return
	}
	s.untrackLocked(id)
	s.mu.Unlock()
	if fl.at.feed != nil {
		s.settle(fl.at)
	}
	s.refill()
}

// freed is told that the log has forgotten a packet id.
func (s *session) freed(id uint16, err error) {
	if err != nil {
		s.c.failed(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untrackLocked(id)
	s.pumpLocked() // all that waits: the log's goroutine reads nothing
}

// received is a PUBREC (section 3.5).
func (s *session) received(id uint16, reason byte) {
	refused := reason >= packets.ErrUnspecifiedError.Code
	s.mu.Lock()
	fl, there := s.inflight[id]
	there = there && fl.qos == 2
	logged := there && fl.at.feed != nil && fl.phase == awaitAck
	switch {
	case !there:
	case fl.phase == awaitRel: // it comes again; PUBREL is on its way
		s.mu.Unlock()
		return
	case logged:
		fl.phase = awaitRel
		s.inflight[id] = fl
	case refused:
		s.untrackLocked(id)
	default:
		fl.phase = awaitComp
		s.inflight[id] = fl
	}
	s.mu.Unlock()
	switch {
	case logged:
		s.srv.router.ReceivedMQTT(s.c.lease, id, refused, func(err error) { s.owe(id, refused, err) })
	case there && refused:
		s.refill()
	case there:
		s.sendRelease(id, 0)
	default:
		s.sendRelease(id, packets.ErrPacketIdentifierNotFound.Code)
	}
}

// owe is told that the log has a PUBREC: PUBREL may be sent, and is owed until PUBCOMP.
func (s *session) owe(id uint16, refused bool, err error) {
	if err != nil {
		s.c.failed(err)
		return
	}
	if refused {
		s.freed(id, nil)
		return
	}
	s.mu.Lock()
	if fl, there := s.inflight[id]; there {
		fl.at.leave()
		fl.phase, fl.at, fl.owed = awaitComp, place{}, true
		s.inflight[id] = fl
	}
	s.mu.Unlock()
	s.sendRelease(id, 0)
}

func (s *session) sendRelease(id uint16, reason byte) {
	s.c.out.put(func(b []byte) []byte { return appendAck(b, s.version, packets.Pubrel, id, reason) })
}

// refill sends what waits while there is room. Messages are read without a lock: the fan-out
// does not wait for the disk of whoever is behind.
func (s *session) refill() {
	s.sendRetained()
	s.pump()
	s.sendQueued()
}

// sendQueued is refill for what the fan-out left.
func (s *session) sendQueued() {
	for {
		s.mu.Lock()
		if s.reading || s.ended || len(s.queue) == 0 || !s.roomLocked() {
			s.mu.Unlock()
			return
		}
		s.reading = true
		at := s.queue[0]
		s.queue = s.queue[1:]
		s.waiting -= int64(at.size)
		s.mu.Unlock()

		s.resume(&at)

		s.mu.Lock()
		s.reading = false
		if len(s.queue) == 0 {
			s.queue = nil
			s.records = recordCache{}
		}
		if len(s.feeds)+len(s.walks) > 0 {
			s.pumpLocked() // the room may be theirs: it was not for sure
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
		s.sendLocked(m, &d, place{})
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
