package state

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"polylog/core"
	"polylog/core/wire"
)

// Topic is one version of a topic, immutable: a change makes a new one.
type Topic struct {
	Name      core.Name
	ID        core.TopicID
	Queues    []core.QueueID // by partition
	Overrides map[string]string
	Internal  bool
	Created   int64 // ms since the epoch

	// Memo is for whoever reads topics to keep what it made of this version.
	Memo atomic.Value
}

// topicSet finds topics by everything that names them.
type topicSet struct {
	byName   map[core.Name]*Topic
	byFolded map[core.Name]*Topic // names with '.' as '_', which must not collide
	byID     map[core.TopicID]*Topic
	queues   *queueMap
}

func newTopicSet() topicSet {
	return topicSet{
		byName:   map[core.Name]*Topic{},
		byFolded: map[core.Name]*Topic{},
		byID:     map[core.TopicID]*Topic{},
		queues:   new(queueMap),
	}
}

// topicChange replaces was, nil for a new topic, by is, nil for a deleted one.
type topicChange struct{ was, is *Topic }

func (s *topicSet) change(c topicChange) {
	if was := c.was; was != nil {
		delete(s.byName, was.Name)
		delete(s.byFolded, folded(was.Name))
		delete(s.byID, was.ID)
		s.queues.remove(was)
	}
	if is := c.is; is != nil {
		s.byName[is.Name] = is
		s.byFolded[folded(is.Name)] = is
		s.byID[is.ID] = is
		s.queues.add(is)
	}
}

// folded is a name in the form in which Kafka's metric names cannot tell two apart.
func folded(n core.Name) core.Name {
	return core.Name{Namespace: n.Namespace, Name: strings.ReplaceAll(n.Name, ".", "_")}
}

// canCreate is nil when a topic of that name may be created.
func (s *topicSet) canCreate(n core.Name) *core.Error {
	if _, ok := s.byName[n]; ok {
		return core.E(core.Exists, "topic %s already exists", n)
	}
	if t, ok := s.byFolded[folded(n)]; ok {
		return core.E(core.Invalid, "topic %s collides with existing topic %s: '.' and '_' count as the same", n, t.Name)
	}
	return nil
}

// changeTopic stores a change, for the commands after this one and, at the end of
// the batch, for readers.
func (s *State) changeTopic(tx txn, c topicChange) {
	if c.is == nil {
		tx.Delete(topicKey(c.was.Name))
	} else {
		tx.Set(topicKey(c.is.Name), c.is.encode())
	}
	s.all.change(c)
	s.changed = append(s.changed, c)
}

// publish shows readers what the batch changed.
func (s *State) publish() {
	s.publishSweep()
	if s.queuesChanged {
		s.queuesChanged = false
		s.policyView.Store(s.policies)
		s.queueGen.Add(1)
	}
	s.view.level.Store(int32(s.level))
	if len(s.changed) == 0 && !s.brokerChanged && !s.membersChanged && !s.sessionsChanged {
		return
	}
	s.view.Lock()
	for _, c := range s.changed {
		s.view.topics.change(c)
	}
	s.view.broker, s.view.members, s.view.sightings, s.view.sessions = s.broker, s.members, s.sightings, s.sessions
	s.view.Unlock()
	if s.brokerChanged {
		s.generation.Add(1)
	}
	clear(s.changed)
	s.changed, s.brokerChanged, s.membersChanged, s.sessionsChanged = s.changed[:0], false, false, false
}

// Topic finds a topic by name.
func (s *State) Topic(n core.Name) (*Topic, bool) {
	s.view.RLock()
	defer s.view.RUnlock()
	t, ok := s.view.topics.byName[n]
	return t, ok
}

// TopicByID finds a topic by id.
func (s *State) TopicByID(id core.TopicID) (*Topic, bool) {
	s.view.RLock()
	defer s.view.RUnlock()
	t, ok := s.view.topics.byID[id]
	return t, ok
}

// TopicOfQueue finds the topic and partition that a queue is.
func (s *State) TopicOfQueue(q core.QueueID) (*Topic, int32, bool) {
	s.view.RLock()
	defer s.view.RUnlock()
	p, ok := s.view.topics.queues.find(q)
	return p.topic, p.number, ok
}

// Topics are all topics, in no order.
func (s *State) Topics() []*Topic {
	s.view.RLock()
	defer s.view.RUnlock()
	return slices.Collect(maps.Values(s.view.topics.byName))
}

// TopicCount is the number of topics and of their partitions.
func (s *State) TopicCount() (topics, partitions int) {
	s.view.RLock()
	defer s.view.RUnlock()
	return len(s.view.topics.byName), s.view.topics.queues.count
}

// CanCreate is nil when a topic of that name may be created as of now.
func (s *State) CanCreate(n core.Name) error {
	s.view.RLock()
	defer s.view.RUnlock()
	if err := s.view.topics.canCreate(n); err != nil {
		return err
	}
	return nil
}

func (s *State) loadTopics() error {
	prefix := []byte{prefixTopic}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(_, v []byte) bool {
		t, err := decodeTopic(v)
		if err != nil {
			bad = err
			return false
		}
		s.all.change(topicChange{nil, t})
		s.view.topics.change(topicChange{nil, t})
		return true
	})
	if err != nil {
		return err
	}
	return bad
}

// A topic's value, all numbers uvarints:
//
//	version byte, namespace, name, id (16 bytes), internal byte, created varint,
//	count, that many queue ids, overrides
func (t *Topic) encode() []byte {
	b := append(make([]byte, 0, 64+4*len(t.Queues)), valueVersion)
	b = appendName(b, t.Name)
	b = append(b, t.ID[:]...)
	b = wire.AppendBool(b, t.Internal)
	b = wire.AppendVarint(b, t.Created)
	b = wire.AppendUvarint(b, uint64(len(t.Queues)))
	for _, q := range t.Queues {
		b = wire.AppendUvarint(b, uint64(q))
	}
	return appendConfigs(b, t.Overrides)
}

func decodeTopic(v []byte) (*Topic, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "topic"); err != nil {
		return nil, err
	}
	t := &Topic{Name: readName(&r), ID: readTopicID(&r), Internal: r.Bool(), Created: r.Varint()}
	t.Queues = make([]core.QueueID, r.Count(1))
	for i := range t.Queues {
		t.Queues[i] = core.QueueID(r.Uvarint())
	}
	t.Overrides = readConfigs(&r)
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "topic: %v", err)
	}
	return t, nil
}

func appendName(dst []byte, n core.Name) []byte {
	return wire.AppendString(wire.AppendString(dst, n.Namespace), n.Name)
}

func readName(r *wire.Reader) core.Name { return core.Name{Namespace: r.String(), Name: r.String()} }

func readTopicID(r *wire.Reader) (id core.TopicID) {
	copy(id[:], r.Take(len(id)))
	return id
}

// appendConfigs writes a count and the pairs in order of their keys, so that equal
// maps are equal bytes.
func appendConfigs(dst []byte, m map[string]string) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		dst = wire.AppendString(wire.AppendString(dst, k), m[k])
	}
	return dst
}

func readConfigs(r *wire.Reader) map[string]string {
	n := r.Count(2)
	m := make(map[string]string, n)
	for range n {
		k := r.String()
		m[k] = r.String()
	}
	return m
}
