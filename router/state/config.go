package state

import (
	"maps"

	"polylog/core"
	"polylog/core/wire"
)

// ConfigChange sets or deletes one configuration value. What values mean, and
// which are legal, is the proposer's business: replicas of different versions must
// agree on the state.
type ConfigChange struct {
	Key    string
	Value  string
	Delete bool
}

// AlterTopicConfig changes a topic's overrides.
type AlterTopicConfig struct {
	Name    core.Name
	ID      core.TopicID
	Replace bool // forget those that are not named
	Changes []ConfigChange
}

// Command encodes: name, id, replace byte, changes.
func (c *AlterTopicConfig) Command() core.Command {
	b := append(appendName(nil, c.Name), c.ID[:]...)
	b = wire.AppendBool(b, c.Replace)
	return core.Command{Code: CodeAlterTopicConfig, Head: appendChanges(b, c.Changes)}
}

func decodeAlterTopicConfig(body []byte) (c AlterTopicConfig, err error) {
	r := wire.NewReader(body)
	c.Name, c.ID = readName(&r), readTopicID(&r)
	c.Replace = r.Bool()
	c.Changes = readChanges(&r)
	return c, r.Close()
}

// appendChanges writes a count and for each change: key, delete byte, value.
func appendChanges(dst []byte, cs []ConfigChange) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(cs)))
	for _, c := range cs {
		dst = wire.AppendString(dst, c.Key)
		dst = wire.AppendBool(dst, c.Delete)
		dst = wire.AppendString(dst, c.Value)
	}
	return dst
}

func readChanges(r *wire.Reader) []ConfigChange {
	cs := make([]ConfigChange, r.Count(3))
	for i := range cs {
		cs[i] = ConfigChange{Key: r.String(), Delete: r.Bool(), Value: r.String()}
	}
	return cs
}

// changed is m after the changes; m stays as it is.
func changed(m map[string]string, cs []ConfigChange, replace bool) map[string]string {
	n := make(map[string]string, len(m)+len(cs))
	if !replace {
		maps.Copy(n, m)
	}
	for _, c := range cs {
		if c.Delete {
			delete(n, c.Key)
		} else {
			n[c.Key] = c.Value
		}
	}
	return n
}

func (s *State) alterTopicConfig(tx txn, body []byte) core.Result {
	cmd, err := decodeAlterTopicConfig(body)
	if err != nil {
		return invalid("alter topic configuration", err)
	}
	t, refusal := s.topicOf(cmd.Name, cmd.ID)
	if refusal != nil {
		return core.Result{Err: refusal}
	}
	s.changeTopic(tx, topicChange{t, t.with(t.Queues, changed(t.Overrides, cmd.Changes, cmd.Replace))})
	return core.Result{}
}

// AlterBrokerConfig changes the broker configuration of the whole cluster.
type AlterBrokerConfig struct {
	Replace bool // forget those that are not named
	Changes []ConfigChange
}

// Command encodes: replace byte, changes.
func (c *AlterBrokerConfig) Command() core.Command {
	return core.Command{Code: CodeAlterBrokerConfig, Head: appendChanges(wire.AppendBool(nil, c.Replace), c.Changes)}
}

func decodeAlterBrokerConfig(body []byte) (c AlterBrokerConfig, err error) {
	r := wire.NewReader(body)
	c.Replace = r.Bool()
	c.Changes = readChanges(&r)
	return c, r.Close()
}

func (s *State) alterBrokerConfig(tx txn, body []byte) core.Result {
	cmd, err := decodeAlterBrokerConfig(body)
	if err != nil {
		return invalid("alter broker configuration", err)
	}
	is := changed(s.broker, cmd.Changes, cmd.Replace)
	for k := range s.broker {
		if _, ok := is[k]; !ok {
			tx.Delete(brokerKey(k))
		}
	}
	for k, v := range is {
		tx.Set(brokerKey(k), append([]byte{valueVersion}, v...))
	}
	s.broker, s.brokerChanged = is, true
	s.producerAge = producerAge(is)
	return core.Result{}
}

func (s *State) loadBroker() error {
	prefix := []byte{prefixBroker}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		r := wire.NewReader(v)
		if bad = checkVersion(&r, "broker configuration"); bad != nil {
			return false
		}
		s.broker[string(k[1:])] = string(r.Rest())
		return true
	})
	s.view.broker = s.broker
	if err != nil {
		return err
	}
	return bad
}

// BrokerConfig is the broker configuration that was set for the whole cluster, not
// to be changed, and its generation.
func (s *State) BrokerConfig() (map[string]string, uint64) {
	generation := s.generation.Load()
	s.view.RLock()
	defer s.view.RUnlock()
	return s.view.broker, generation
}

// BrokerGeneration changes whenever the broker configuration has.
func (s *State) BrokerGeneration() uint64 { return s.generation.Load() }
