package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Group is a group that committed offsets or said that it exists.
type Group struct {
	Name         string
	ProtocolType string
	Time         int64 // of the last commit, ms
}

// GroupOffset is a position that a group committed.
type GroupOffset struct {
	Queue       core.QueueID
	Offset      core.Offset
	LeaderEpoch int32 // -1: none
	Metadata    string
	Time        int64 // of the commit, ms
}

// A group's value: version byte, time varint, protocol type.
func (g *Group) encode() []byte {
	b := wire.AppendVarint([]byte{valueVersion}, g.Time)
	return wire.AppendString(b, g.ProtocolType)
}

func decodeGroup(name string, v []byte) (g Group, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "group"); err != nil {
		return g, err
	}
	g = Group{Name: name, Time: r.Varint(), ProtocolType: r.String()}
	if err := r.Close(); err != nil {
		return g, core.E(core.Corrupt, "group %s: %v", name, err)
	}
	return g, nil
}

// An offset's value: version byte, offset varint, epoch varint, time varint,
// metadata.
func (o *GroupOffset) encode() []byte {
	b := make([]byte, 0, 16+len(o.Metadata))
	b = wire.AppendVarint(append(b, valueVersion), int64(o.Offset))
	b = wire.AppendVarint(b, int64(o.LeaderEpoch))
	b = wire.AppendVarint(b, o.Time)
	return wire.AppendString(b, o.Metadata)
}

func decodeOffset(q core.QueueID, v []byte) (o GroupOffset, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "group offset"); err != nil {
		return o, err
	}
	o = GroupOffset{
		Queue: q, Offset: core.Offset(r.Varint()), LeaderEpoch: int32(r.Varint()), Time: r.Varint(), Metadata: r.String(),
	}
	if err := r.Close(); err != nil {
		return o, core.E(core.Corrupt, "group offset: %v", err)
	}
	return o, nil
}

// ReadGroup finds a group.
func ReadGroup(r index.Reader, name string) (g Group, ok bool, err error) {
	v, ok, err := r.Get(groupKey(name))
	if err != nil || !ok {
		return g, false, err
	}
	g, err = decodeGroup(name, v)
	return g, err == nil, err
}

// ReadGroups calls fn for each group, by name, until it returns false.
func ReadGroups(r index.Reader, fn func(Group) bool) error {
	prefix := []byte{prefixGroup}
	var bad error
	err := r.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var g Group
		if g, bad = decodeGroup(string(k[1:]), v); bad != nil {
			return false
		}
		return fn(g)
	})
	if err != nil {
		return err
	}
	return bad
}

// ReadOffset finds a group's position on a queue.
func ReadOffset(r index.Reader, group string, q core.QueueID) (o GroupOffset, ok bool, err error) {
	v, ok, err := r.Get(offsetKey(group, q))
	if err != nil || !ok {
		return o, false, err
	}
	o, err = decodeOffset(q, v)
	return o, err == nil, err
}

// ReadOffsets are all positions of a group, by queue.
func ReadOffsets(r index.Reader, group string) (os []GroupOffset, err error) {
	prefix := offsetPrefix(group)
	var bad error
	err = r.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var o GroupOffset
		if o, bad = decodeOffset(core.QueueID(binary.BigEndian.Uint64(k[len(k)-8:])), v); bad != nil {
			return false
		}
		os = append(os, o)
		return true
	})
	if err == nil {
		err = bad
	}
	return os, err
}
