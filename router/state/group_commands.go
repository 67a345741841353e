package state

import (
	"encoding/binary"
	"math"

	"polylog/core"
	"polylog/core/wire"
)

// OffsetCommit is a position to keep for a group.
type OffsetCommit struct {
	Queue       core.QueueID
	Offset      core.Offset
	LeaderEpoch int32
	Metadata    string
}

// CommitOffsets keeps positions of a group. The group comes into being with it; with
// no positions it only says that the group lives. The result's body has a kind for
// each position: OK, or NotFound for a queue that is gone.
type CommitOffsets struct {
	Group        string
	ProtocolType string // empty leaves it
	Offsets      []OffsetCommit
}

// Command encodes: group, protocol type, count uvarint; each: queue uvarint,
// offset varint, epoch varint, metadata.
func (c *CommitOffsets) Command() core.Command {
	b := wire.AppendString(nil, c.Group)
	b = wire.AppendString(b, c.ProtocolType)
	b = wire.AppendUvarint(b, uint64(len(c.Offsets)))
	for _, o := range c.Offsets {
		b = wire.AppendUvarint(b, uint64(o.Queue))
		b = wire.AppendVarint(b, int64(o.Offset))
		b = wire.AppendVarint(b, int64(o.LeaderEpoch))
		b = wire.AppendString(b, o.Metadata)
	}
	return core.Command{Code: CodeCommitOffsets, Head: b}
}

func decodeCommitOffsets(body []byte) (c CommitOffsets, err error) {
	r := wire.NewReader(body)
	c.Group, c.ProtocolType = r.String(), r.String()
	c.Offsets = make([]OffsetCommit, r.Count(4))
	for i := range c.Offsets {
		c.Offsets[i] = OffsetCommit{
			core.QueueID(r.Uvarint()), core.Offset(r.Varint()), int32(r.Varint()), r.String(),
		}
	}
	return c, r.Close()
}

// DecodeKinds reads a result's body that has one kind for each part of its command.
func DecodeKinds(body []byte) []core.Kind {
	ks := make([]core.Kind, len(body))
	for i, b := range body {
		ks[i] = core.Kind(b)
	}
	return ks
}

func (s *State) commitOffsets(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeCommitOffsets(body)
	if err != nil {
		return invalid("commit offsets", err)
	}
	g, _, err := ReadGroup(tx, cmd.Group)
	if err != nil {
		return s.storeResult(err)
	}
	g.Time = c.time
	if cmd.ProtocolType != "" {
		g.ProtocolType = cmd.ProtocolType
	}
	tx.Set(groupKey(cmd.Group), g.encode())
	kinds := make([]byte, len(cmd.Offsets))
	for i, oc := range cmd.Offsets {
		if _, ok := s.all.queues.find(oc.Queue); !ok {
			kinds[i] = byte(core.NotFound)
			continue
		}
		o := GroupOffset{oc.Queue, oc.Offset, oc.LeaderEpoch, oc.Metadata, c.time}
		key := offsetKey(cmd.Group, oc.Queue)
		_, had, err := tx.Get(key)
		if err != nil {
			return s.storeResult(err)
		}
		tx.Set(key, o.encode())
		if !had {
			tx.Set(byQueueKey(oc.Queue, cmd.Group), nil)
		}
	}
	return core.Result{Body: kinds}
}

// DeleteOffsets forgets positions of a group. The result's body has a kind for each
// queue: OK, or NotFound.
type DeleteOffsets struct {
	Group  string
	Queues []core.QueueID
}

// Command encodes: group, count uvarint, queues uvarint.
func (c *DeleteOffsets) Command() core.Command {
	b := wire.AppendString(nil, c.Group)
	b = wire.AppendUvarint(b, uint64(len(c.Queues)))
	for _, q := range c.Queues {
		b = wire.AppendUvarint(b, uint64(q))
	}
	return core.Command{Code: CodeDeleteOffsets, Head: b}
}

func decodeDeleteOffsets(body []byte) (c DeleteOffsets, err error) {
	r := wire.NewReader(body)
	c.Group = r.String()
	c.Queues = make([]core.QueueID, r.Count(1))
	for i := range c.Queues {
		c.Queues[i] = core.QueueID(r.Uvarint())
	}
	return c, r.Close()
}

func (s *State) deleteOffsets(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteOffsets(body)
	if err != nil {
		return invalid("delete offsets", err)
	}
	if _, ok, err := ReadGroup(tx, cmd.Group); err != nil {
		return s.storeResult(err)
	} else if !ok {
		return refused(core.NotFound, "group %s does not exist", cmd.Group)
	}
	kinds := make([]byte, len(cmd.Queues))
	for i, q := range cmd.Queues {
		_, ok, err := tx.Get(offsetKey(cmd.Group, q))
		if _, alive := s.all.queues.find(q); !alive {
			ok = false // the sweep's
		}
		switch {
		case err != nil:
			return s.storeResult(err)
		case !ok:
			kinds[i] = byte(core.NotFound)
		default:
			deleteOffset(tx, cmd.Group, q)
		}
	}
	return core.Result{Body: kinds}
}

func deleteOffset(tx txn, group string, q core.QueueID) {
	tx.Delete(offsetKey(group, q))
	tx.Delete(byQueueKey(q, group))
}

// DeleteGroup forgets a group and all its positions.
type DeleteGroup struct{ Group string }

// Command encodes: group.
func (c *DeleteGroup) Command() core.Command {
	return core.Command{Code: CodeDeleteGroup, Head: wire.AppendString(nil, c.Group)}
}

func decodeDeleteGroup(body []byte) (c DeleteGroup, err error) {
	r := wire.NewReader(body)
	c.Group = r.String()
	return c, r.Close()
}

func (s *State) deleteGroup(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteGroup(body)
	if err != nil {
		return invalid("delete group", err)
	}
	if _, ok, err := ReadGroup(tx, cmd.Group); err != nil {
		return s.storeResult(err)
	} else if !ok {
		return refused(core.NotFound, "group %s does not exist", cmd.Group)
	}
	if err := dropGroup(tx, cmd.Group); err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}

func dropGroup(tx txn, group string) error {
	prefix := offsetPrefix(group)
	keys, err := scanKeys(tx, prefix, after(prefix), math.MaxInt)
	for _, k := range keys {
		deleteOffset(tx, group, core.QueueID(binary.BigEndian.Uint64(k[len(k)-8:])))
	}
	tx.Delete(groupKey(group))
	return err
}
