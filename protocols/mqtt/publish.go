package mqtt

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/router"
)

// publisher takes a client's publishes to the log. What comes in one burst for one partition
// becomes one batch; nothing waits for more to come.
type publisher struct {
	c *conn

	// Of the connection's goroutine.
	batches []*outBatch // of this burst
	spare   []*outBatch

	mu      sync.Mutex    // guards what follows
	room    sync.Cond     // on mu: flying fell
	flying  int           // bytes that are on their way to the log
	intact  core.Sequence // of QoS 1 and 2: it ends when one has failed, or the client has another connection, and sends it again
	acks    []pendingAck
	first   uint64                // the number of acks[0]
	exactly map[uint16]exactState // QoS 2 packet ids until their PUBREL
	unacked int                   // QoS 1 and 2 publishes that count against the receive maximum
}

// exactState is how far a QoS 2 publish is.
type exactState uint8

const (
	exactStoring exactState = iota // it is on its way to the log
	exactStored                    // it has its PUBREC
)

// pendingAck is an acknowledgement that is to be sent when all before it are (section 4.6).
type pendingAck struct {
	id     uint16
	kind   byte // PUBACK or PUBREC
	reason byte
	ready  bool
}

// outBatch gathers publishes for one partition.
type outBatch struct {
	queue   core.QueueID
	builder core.BatchBuilder
	acks    []uint64 // their numbers
}

const (
	// maxBatchBytes and maxBatchRecords bound what is gathered.
	maxBatchBytes   = 64 << 10
	maxBatchRecords = 512
	// maxFlying is how many bytes of a client are on their way to the log before it is read on.
	maxFlying = 2 << 20
	// maxBatches bounds the partitions of one burst.
	maxBatches = 16
)

func (p *publisher) init(c *conn) {
	p.c = c
	p.room.L = &p.mu
}

// publish takes a PUBLISH (section 3.3). An error ends the connection.
func (c *conn) publish(pk *packets.Packet) error {
	if pk.FixedHeader.Qos > 0 && pk.PacketID == 0 {
		return packets.ErrProtocolViolationNoPacketID // MQTT-2.2.1-3
	}
	if len(pk.Properties.SubscriptionIdentifier) > 0 {
		return packets.ErrProtocolViolationSurplusSubID // MQTT-3.3.4-6
	}
	if err := c.resolveAlias(pk); err != nil {
		return err
	}
	if err := topicfilter.CheckName(pk.TopicName); err != nil {
		return packets.ErrTopicNameInvalid // MQTT-3.3.2-2
	}
	if pk.Properties.PayloadFormat > 1 {
		return packets.ErrProtocolViolation // section 3.3.2.3.2
	}
	var delay uint32
	delay, pk.TopicName = splitDelay(pk.TopicName)
	qos := pk.FixedHeader.Qos
	c.srv.metrics.received[qos].Add(1)
	ack, fresh, err := c.pub.begin(pk)
	if err != nil || !fresh {
		return err
	}
	if code := c.checkPublish(pk); code != packets.CodeSuccess {
		return c.pub.reject(pk, ack, code, false)
	}
	to, err := c.srv.locate(c.principal, pk.TopicName)
	if err != nil {
		return c.pub.reject(pk, ack, reasonOf(err), passing(err))
	}
	switch {
	case qos == 2 && c.session.keeps:
		c.pub.storeExactly(to, pk, delay, ack)
	case delay > 0:
		c.pub.storeDelayed(to, pk, delay, ack)
	case pk.FixedHeader.Retain:
		c.pub.storeRetained(to, pk, ack)
	default:
		c.pub.add(to, pk, ack)
	}
	return nil
}

// resolveAlias gives a publish its topic name (section 3.3.2.3.4).
func (c *conn) resolveAlias(pk *packets.Packet) error {
	if !pk.Properties.TopicAliasFlag {
		if pk.TopicName == "" {
			return packets.ErrProtocolViolationNoTopic // MQTT-3.3.2-8
		}
		return nil
	}
	alias := pk.Properties.TopicAlias
	if alias == 0 || alias > maxAliases {
		return packets.ErrTopicAliasInvalid
	}
	if pk.TopicName == "" {
		pk.TopicName = c.aliases[alias]
		if pk.TopicName == "" {
			return packets.ErrProtocolViolationNoTopic
		}
		return nil
	}
	if c.aliases[alias] != pk.TopicName {
		if c.aliases == nil {
			c.aliases = map[uint16]string{}
		}
		c.aliases[alias] = strings.Clone(pk.TopicName)
	}
	return nil
}

// checkPublish is why a publish is refused, or success.
func (c *conn) checkPublish(pk *packets.Packet) packets.Code {
	switch {
	case pk.TopicName[0] == '$':
		return packets.ErrTopicNameInvalid // section 4.7.2: they are the server's
	case pk.Properties.PayloadFormat == 1 && !utf8.Valid(pk.Payload):
		return packets.ErrPayloadFormatInvalid
	case strings.ContainsAny(pk.Properties.ResponseTopic, "+#"):
		return packets.ErrTopicNameInvalid // MQTT-3.3.2-14
	}
	for _, u := range pk.Properties.User {
		if u.Key == headerUserID && c.srv.router.CheckUserID(c.principal, u.Val) != nil {
			return packets.ErrNotAuthorized
		}
	}
	return packets.CodeSuccess
}

// vouch stands for the user id of a publish that checkPublish has let through.
func (c *conn) vouch(b *core.BatchBuilder, pk *packets.Packet) {
	if c.principal.Vouches() && slices.ContainsFunc(pk.Properties.User, func(u packets.UserProperty) bool { return u.Key == headerUserID }) {
		b.Vouch()
	}
}

// target is where what is published to a topic name goes.
type target struct {
	queue core.QueueID // a partition
	topic string
	key   string // of the record, where keyed
	keyed bool
}

// locate finds the target for a topic name, whose topic it creates where that is allowed. That the
// client may write to it is asked here only where something else is to be done first.
func (s *Server) locate(p router.Principal, name string) (to target, err error) {
	to.topic, to.key, to.keyed = s.mapping.place(name)
	full := core.Name{Namespace: s.opts.Namespace, Name: to.topic}
	t, ok := s.router.Topic(full)
	named := topicfilter.FirstLevel(name) == to.topic
	if !ok || !named {
		if err := s.authorize(p, router.OpWrite, to.topic); err != nil {
			return to, err
		}
	}
	if !ok {
		if t, err = s.createTopic(p, full); err != nil {
			return to, err
		}
	}
	if !named {
		if err := s.router.CarryMQTTNames(s.ctx, t); err != nil {
			return to, err
		}
	}
	partition := 0
	if n := len(t.Partitions); n > 1 {
		partition = core.PartitionOf([]byte(to.key), n)
	}
	to.queue = t.Partitions[partition]
	return to, nil
}

func (s *Server) createTopic(p router.Principal, n core.Name) (*router.Topic, error) {
	if !s.router.BrokerConfig().AutoCreateTopics {
		return nil, core.E(core.NotFound, "topic %s does not exist, and auto.create.topics.enable is false", n)
	}
	t, err := s.router.CreateTopic(s.ctx, p, router.TopicSpec{Name: n, Partitions: -1})
	if core.KindOf(err) != core.Exists {
		return t, err
	}
	// Somebody else created it, and this node has not applied that.
	if err := s.router.Sync(s.ctx); err != nil {
		return nil, err
	}
	if t, ok := s.router.Topic(n); ok {
		return t, nil
	}
	return nil, core.E(core.Unavailable, "topic %s exists and cannot be seen yet", n)
}

// begin takes up a publish: the number of its acknowledgement. It is not fresh when it is a
// QoS 2 publish that came before.
func (p *publisher) begin(pk *packets.Packet) (ack uint64, fresh bool, err error) {
	qos := pk.FixedHeader.Qos
	if qos == 0 {
		return 0, true, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if qos == 2 {
		if was, again := p.exactly[pk.PacketID]; again {
			if was == exactStored {
				p.ackLocked(pendingAck{id: pk.PacketID, kind: packets.Pubrec, ready: true})
			}
			return 0, false, nil // section 4.3.3; the one that is being stored has its PUBREC to come
		}
	}
	if p.unacked >= p.c.srv.opts.ReceiveMaximum && p.c.version == 5 {
		return 0, false, packets.ErrReceiveMaximum // section 4.9, MQTT-3.3.4-9
	}
	p.unacked++
	kind := packets.Puback
	if qos == 2 {
		kind = packets.Pubrec
		if p.exactly == nil {
			p.exactly = map[uint16]exactState{}
		}
		p.exactly[pk.PacketID] = exactStoring
	}
	return p.ackLocked(pendingAck{id: pk.PacketID, kind: kind}), true, nil
}

func (p *publisher) ackLocked(a pendingAck) (number uint64) {
	p.acks = append(p.acks, a)
	if a.ready {
		p.sendAcksLocked()
	}
	return p.first + uint64(len(p.acks)) - 1
}

// reject ends a publish that is not stored. passing says that it may go well later.
func (p *publisher) reject(pk *packets.Packet, ack uint64, why packets.Code, passing bool) error {
	p.c.srv.metrics.rejected.Add(1)
	switch {
	case pk.FixedHeader.Qos == 0 && p.c.version == 5 && why == packets.ErrPayloadFormatInvalid:
		return why
	case pk.FixedHeader.Qos == 0:
		return nil
	case passing, p.c.version < 5 && why != packets.ErrTopicNameInvalid:
		// MQTT 3.1.1 can only acknowledge or close (MQTT-3.3.5-2), and what MQTT 5 has
		// acknowledged with an error is not sent again.
		return why
	case p.c.version < 5:
		why = packets.CodeSuccess
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleLocked(ack, why.Code)
	p.sendAcksLocked()
	return nil
}

// settleLocked makes an acknowledgement ready. With an error the packet id is free again.
func (p *publisher) settleLocked(number uint64, reason byte) {
	a := &p.acks[number-p.first]
	a.ready, a.reason = true, reason
	if a.kind == packets.Puback || reason >= packets.ErrUnspecifiedError.Code {
		p.unacked--
	}
	if a.kind == packets.Pubrec {
		if reason >= packets.ErrUnspecifiedError.Code {
			delete(p.exactly, a.id)
		} else {
			p.exactly[a.id] = exactStored
		}
	}
}

// sendAcksLocked sends what is ready and has nothing before it that is not.
func (p *publisher) sendAcksLocked() {
	n := 0
	for n < len(p.acks) && p.acks[n].ready {
		n++
	}
	if n == 0 {
		return
	}
	p.c.srv.metrics.packetsOut.Add(int64(n) - 1) // put counts one
	p.c.out.put(func(b []byte) []byte {
		for _, a := range p.acks[:n] {
			b = appendAck(b, p.c.version, a.kind, a.id, a.reason)
		}
		return b
	})
	p.first += uint64(n)
	if p.acks = p.acks[n:]; len(p.acks) == 0 {
		p.acks = nil
	}
}

// released is a PUBREL (section 3.6).
func (p *publisher) released(id uint16) {
	p.mu.Lock()
	was, ok := p.exactly[id]
	p.mu.Unlock()
	switch {
	case !ok || was != exactStored:
		p.complete(id, packets.ErrPacketIdentifierNotFound.Code)
	case p.c.session.keeps: // the client may use the id anew when the log knows
		p.c.srv.router.ReleaseMQTT(p.c.lease, []uint16{id}, func(err error) {
			if err != nil {
				p.c.failed(err)
				return
			}
			p.complete(id, 0)
		})
	default:
		p.complete(id, 0)
	}
}

// complete answers a PUBREL, and frees its packet id where it was in use.
func (p *publisher) complete(id uint16, reason byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.exactly[id]; there && reason == 0 {
		delete(p.exactly, id)
		p.unacked = max(p.unacked-1, 0) // it may be one of an earlier connection
	}
	p.c.out.put(func(b []byte) []byte { return appendAck(b, p.c.version, packets.Pubcomp, id, reason) })
}

// add gathers a publish.
func (p *publisher) add(to target, pk *packets.Packet, ack uint64) {
	b := p.batch(to.queue)
	appendRecord(&b.builder, p.c.srv.now(), to, pk, p.c.clientBytes)
	p.c.vouch(&b.builder, pk)
	if pk.FixedHeader.Qos > 0 {
		b.acks = append(b.acks, ack)
	}
	if b.builder.Size() >= maxBatchBytes || b.builder.Len() >= maxBatchRecords {
		p.flush()
	}
}

// batch is the batch of this burst for a partition.
func (p *publisher) batch(q core.QueueID) *outBatch {
	for _, b := range p.batches {
		if b.queue == q {
			return b
		}
	}
	if len(p.batches) == maxBatches {
		p.flush()
	}
	var b *outBatch
	if n := len(p.spare); n > 0 {
		b, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		b = new(outBatch)
	}
	b.queue = q
	p.batches = append(p.batches, b)
	return b
}

// flush sends what was gathered to the log, and waits while too much is on its way there, or
// on its way to the client.
func (p *publisher) flush() {
	for i, b := range p.batches {
		p.send(b)
		p.batches[i] = nil
		if len(p.spare) == 0 && b.builder.Size() < maxBatchBytes/4 { // an idle client keeps little
			b.builder.Reset()
			p.spare = append(p.spare, b)
		}
	}
	p.batches = p.batches[:0]
	p.mu.Lock()
	for p.flying >= maxFlying {
		p.room.Wait()
	}
	p.mu.Unlock()
	p.c.out.awaitRoom()
}

func (p *publisher) send(b *outBatch) {
	batch, err := b.builder.Build(nil, core.BatchOptions{Producer: core.Nobody})
	acks := b.acks
	b.acks = nil
	n := b.builder.Len()
	if err != nil {
		p.stored(acks, n, 0, err)
		return
	}
	if !p.take(len(batch)) {
		return
	}
	p.c.srv.router.PublishChecked(p.c.principal, p.sequence(acks), b.queue, batch, func(res router.PublishResult) {
		p.stored(acks, n, len(batch), res.Err)
	})
}

// sequence is that of publishes with acknowledgements. Others are never sent again, so that nothing
// has to wait for that.
func (p *publisher) sequence(acks []uint64) *core.Sequence {
	if len(acks) == 0 {
		return nil
	}
	return &p.intact
}

// take says that n bytes are about to go to the log. It is false where something that came before has
// failed and is sent again: what comes behind it must not be stored first.
func (p *publisher) take(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.intact.Ended() {
		return false
	}
	p.flying += n
	return true
}

// stored is the outcome of a batch of n publishes. It runs on the log's goroutine.
func (p *publisher) stored(acks []uint64, n, size int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying -= size
	p.room.Broadcast()
	if err != nil {
		p.c.srv.metrics.rejected.Add(int64(n))
	}
	why := reasonOf(err)
	if err != nil && len(acks) > 0 && (passing(err) || p.c.version < 5) {
		p.intact.End()
		p.c.failed(err) // see reject; what was stored before this is acknowledged, the rest comes again
		return
	}
	for _, a := range acks {
		p.settleLocked(a, why.Code)
	}
	p.sendAcksLocked()
}
