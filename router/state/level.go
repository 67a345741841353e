package state

import (
	"polylog/core"
	"polylog/core/wire"
)

// The feature level is what all nodes of a cluster understand. A program knows the levels
// up to MaxLevel. While nodes of two versions run side by side the level stays that of the
// older ones; the leader raises it when every member has announced that it knows more, and
// it never falls. Commands of a higher level than the cluster's are refused, and a program
// that does not know the cluster's level cannot take part.
//
//	1  topics, partitions, configuration, offsets of groups, the registry of members
//	2  everything that a cluster of several nodes needs: queues, leases, copies of files
//	3  what AMQP, MQTT and HTTP need: namespaces, exchanges, what queues can do beside, time
const (
	firstLevel = 1
	// MaxLevel is the highest feature level that this program knows.
	MaxLevel = 3
)

// tooLow refuses a command of a level that not every member knows, or is nil.
func tooLow(code core.Code, level int) *core.Error {
	if need := int(levels[code]); need > level {
		return core.E(core.Unsupported,
			"this needs feature level %d and the cluster is at %d: it rises when every member runs a version that knows it", need, level)
	}
	return nil
}

// Supports is nil when this program knows commands of this code and the cluster's feature
// level allows them. The level never falls, so what is allowed once stays so.
func (s *State) Supports(code core.Code) error {
	if !known(code) {
		return core.E(core.Unsupported, "command code %d, which this program does not know", code)
	}
	if e := tooLow(code, s.Level()); e != nil {
		return e
	}
	return nil
}

// Level is the cluster's feature level.
func (s *State) Level() int { return int(s.view.level.Load()) }

// SetFeatureLevel raises the feature level. It is refused (Conflict) while a member is
// registered that does not know it; a lower level than there is changes nothing.
type SetFeatureLevel struct{ Level int }

// Command encodes: level uvarint.
func (c *SetFeatureLevel) Command() core.Command {
	return core.Command{Code: CodeSetFeatureLevel, Head: wire.AppendUvarint(nil, uint64(c.Level))}
}

func decodeSetFeatureLevel(body []byte) (c SetFeatureLevel, err error) {
	r := wire.NewReader(body)
	c.Level = readLevel(&r)
	return c, r.Close()
}

// readLevel reads a level; one that is absurdly high is as good as any other unknown one.
func readLevel(r *wire.Reader) int { return int(min(r.Uvarint(), 1<<20)) }

func (s *State) setFeatureLevel(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeSetFeatureLevel(body)
	if err != nil {
		return invalid("set feature level", err)
	}
	if cmd.Level <= s.level {
		return core.Result{}
	}
	for _, m := range s.members {
		if m.MaxLevel < cmd.Level {
			return refused(core.Conflict, "feature level %d: node %s knows up to %d", cmd.Level, m.ID, m.MaxLevel)
		}
	}
	if cmd.Level > MaxLevel {
		s.tooNew(c.index, "feature level", cmd.Level)
		return refused(core.Unsupported, "feature level %d", cmd.Level)
	}
	s.level = cmd.Level
	tx.Set([]byte{prefixLevel}, wire.AppendUvarint([]byte{valueVersion}, uint64(s.level)))
	return core.Result{}
}

// loadLevel takes the level from the store, or refuses a store of a newer program.
func (s *State) loadLevel(fresh int) error {
	s.level = max(fresh, firstLevel)
	v, ok, err := s.store.Get([]byte{prefixLevel})
	if err != nil || !ok {
		return err
	}
	r := wire.NewReader(v)
	if err := checkVersion(&r, "feature level"); err != nil {
		return err
	}
	s.level = readLevel(&r)
	if err := r.Close(); err != nil {
		return core.E(core.Corrupt, "feature level: %v", err)
	}
	if s.level > MaxLevel {
		return core.E(core.Unsupported, "the cluster's feature level is %d, this version of polylog knows up to %d: start a newer one", s.level, MaxLevel)
	}
	return nil
}
