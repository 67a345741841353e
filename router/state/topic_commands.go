package state

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"polylog/core"
	"polylog/core/wire"
)

// maxPartitions is where a number of partitions is a mistake or an attack, not a
// wish: each costs a queue. The router has a lower limit.
const maxPartitions = 1 << 17

// CreateTopic creates a topic with its queues. The result's body is its id.
type CreateTopic struct {
	Name       core.Name
	Partitions int
	Overrides  map[string]string // validated by the proposer
	Internal   bool
}

// Command encodes: name, partitions uvarint, internal byte, overrides.
func (c *CreateTopic) Command() core.Command {
	b := appendName(nil, c.Name)
	b = wire.AppendUvarint(b, uint64(c.Partitions))
	b = wire.AppendBool(b, c.Internal)
	return core.Command{Code: CodeCreateTopic, Head: appendConfigs(b, c.Overrides)}
}

func decodeCreateTopic(body []byte) (c CreateTopic, err error) {
	r := wire.NewReader(body)
	c.Name = readName(&r)
	c.Partitions = int(min(r.Uvarint(), maxPartitions+1))
	c.Internal = r.Bool()
	c.Overrides = readConfigs(&r)
	return c, r.Close()
}

// DecodeTopicID reads the body of CreateTopic's result.
func DecodeTopicID(body []byte) (core.TopicID, error) {
	r := wire.NewReader(body)
	id := readTopicID(&r)
	return id, r.Close()
}

func (s *State) createTopic(tx txn, c *cursor, body []byte, pos uint32) core.Result {
	cmd, err := decodeCreateTopic(body)
	switch {
	case err != nil:
		return invalid("create topic", err)
	case cmd.Name.Name == "":
		return refused(core.Invalid, "create topic: the name is empty")
	case cmd.Partitions < 1 || cmd.Partitions > maxPartitions:
		return refused(core.Invalid, "create topic %s: %d partitions, want 1 to %d", cmd.Name, cmd.Partitions, maxPartitions)
	}
	if err := s.inNamespace(cmd.Name); err != nil {
		return core.Result{Err: err}
	}
	if err := s.all.canCreate(cmd.Name); err != nil {
		return core.Result{Err: err}
	}
	t := &Topic{
		Name:      cmd.Name,
		ID:        newTopicID(c, pos, cmd.Name),
		Overrides: cmd.Overrides,
		Internal:  cmd.Internal,
		Created:   c.time,
	}
	if t.Queues, err = s.createQueues(tx, cmd.Partitions); err != nil {
		return s.storeResult(err)
	}
	s.changeTopic(tx, topicChange{nil, t})
	return core.Result{Body: t.ID[:]}
}

// newTopicID makes an id that every replica makes alike, in the form of a random
// UUID (RFC 9562 section 5.4). Kafka's tools take one that begins with '-' in
// base64 for an option, so those are passed over.
func newTopicID(c *cursor, pos uint32, n core.Name) core.TopicID {
	seed := binary.BigEndian.AppendUint64(nil, uint64(c.index))
	seed = binary.BigEndian.AppendUint32(seed, pos)
	seed = binary.BigEndian.AppendUint64(seed, uint64(c.time))
	seed = appendName(seed, n)
	for {
		sum := sha256.Sum256(seed)
		id := core.TopicID(sum[:16])
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
		seed = sum[:]
	}
}

// createQueues gives n queues their ids. The index learns of a queue with its first
// append: until then it costs nothing but its place in the topic.
func (s *State) createQueues(tx txn, n int) ([]core.QueueID, error) {
	first, err := s.take(tx, counterQueues, uint64(n))
	if err != nil {
		return nil, err
	}
	qs := make([]core.QueueID, n)
	for i := range qs {
		qs[i] = core.QueueID(first) + core.QueueID(i)
	}
	return qs, nil
}

// DeleteTopic deletes a topic. Its records, the offsets that groups committed on it and
// its producers are left to Sweep.
type DeleteTopic struct {
	Name core.Name
	ID   core.TopicID // of the topic that is meant; a newer one of the name stays
}

// Command encodes: name, id.
func (c *DeleteTopic) Command() core.Command {
	return core.Command{Code: CodeDeleteTopic, Head: append(appendName(nil, c.Name), c.ID[:]...)}
}

func decodeDeleteTopic(body []byte) (c DeleteTopic, err error) {
	r := wire.NewReader(body)
	c.Name, c.ID = readName(&r), readTopicID(&r)
	return c, r.Close()
}

// topicOf finds the topic that a command is about.
func (s *State) topicOf(n core.Name, id core.TopicID) (*Topic, *core.Error) {
	t, ok := s.all.byName[n]
	if !ok || t.ID != id {
		return nil, core.E(core.NotFound, "topic %s with id %s does not exist", n, id)
	}
	return t, nil
}

func (s *State) deleteTopic(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteTopic(body)
	if err != nil {
		return invalid("delete topic", err)
	}
	t, refusal := s.topicOf(cmd.Name, cmd.ID)
	if refusal != nil {
		return core.Result{Err: refusal}
	}
	s.removeTopic(tx, t)
	if _, err := s.sweepBindings(tx, bindingsAtOnce); err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}

// removeTopic removes a topic, for whatever reason, with its exchange. What belongs to it is
// left to Sweep, and bindings to sweepBindings.
func (s *State) removeTopic(tx txn, t *Topic) {
	s.doom(tx, t.Queues)
	for _, q := range t.Queues {
		s.leaveAcks(tx, q)
	}
	s.queues = append(s.queues, t.Queues...)
	s.changeTopic(tx, topicChange{t, nil})
	s.unbindDestination(tx, destinationID{toTopic, uint64(t.Queues[0])})
	if x := s.routing.taps[t.Queues[0]]; x != nil {
		s.removeExchange(tx, x)
	}
	s.mqtt.forgetTopic(tx, t.ID)
}

// CreatePartitions raises the number of a topic's partitions to Total.
type CreatePartitions struct {
	Name  core.Name
	ID    core.TopicID
	Total int
}

// Command encodes: name, id, total uvarint.
func (c *CreatePartitions) Command() core.Command {
	b := append(appendName(nil, c.Name), c.ID[:]...)
	return core.Command{Code: CodeCreatePartitions, Head: wire.AppendUvarint(b, uint64(c.Total))}
}

func decodeCreatePartitions(body []byte) (c CreatePartitions, err error) {
	r := wire.NewReader(body)
	c.Name, c.ID = readName(&r), readTopicID(&r)
	c.Total = int(min(r.Uvarint(), maxPartitions+1))
	return c, r.Close()
}

func (s *State) createPartitions(tx txn, body []byte) core.Result {
	cmd, err := decodeCreatePartitions(body)
	if err != nil {
		return invalid("create partitions", err)
	}
	t, refusal := s.topicOf(cmd.Name, cmd.ID)
	if refusal != nil {
		return core.Result{Err: refusal}
	}
	have := len(t.Queues)
	if cmd.Total <= have || cmd.Total > maxPartitions {
		return refused(core.Invalid, "topic %s has %d partitions, cannot go to %d", t.Name, have, cmd.Total)
	}
	more, err := s.createQueues(tx, cmd.Total-have)
	if err != nil {
		return s.storeResult(err)
	}
	s.changeTopic(tx, topicChange{t, t.with(slices.Concat(t.Queues, more), t.Overrides)})
	return core.Result{}
}

// with is a new version of the topic.
func (t *Topic) with(queues []core.QueueID, overrides map[string]string) *Topic {
	return &Topic{
		Name: t.Name, ID: t.ID, Queues: queues, Overrides: overrides,
		Internal: t.Internal, Created: t.Created,
	}
}
