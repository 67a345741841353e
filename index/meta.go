package index

import (
	"slices"

	"polylog/core"
	"polylog/core/wire"
)

// formatVersion is the version of everything under the base's directory.
const formatVersion = 1

// meta is the record that tells which entries the base contains:
//
//	+---------+---------+---------------------+---------------+
//	| version | applied | configuration index | configuration |
//	| uvarint | uvarint | uvarint             | the rest      |
//	+---------+---------+---------------------+---------------+
type meta struct {
	applied   core.LogIndex
	confIndex core.LogIndex
	conf      []byte // opaque; never changed once set
}

func (m *meta) appendTo(dst []byte) []byte {
	dst = wire.AppendUvarint(dst, formatVersion)
	dst = wire.AppendUvarint(dst, uint64(m.applied))
	dst = wire.AppendUvarint(dst, uint64(m.confIndex))
	return append(dst, m.conf...)
}

func decodeMeta(b []byte) (m meta, err error) {
	r := wire.NewReader(b)
	version := r.Uvarint()
	if r.Err() == nil && version != formatVersion {
		return m, core.E(core.Unsupported, "index format %d, this binary knows %d", version, formatVersion)
	}
	m.applied = core.LogIndex(r.Uvarint())
	m.confIndex = core.LogIndex(r.Uvarint())
	m.conf = slices.Clone(r.Rest())
	if r.Err() != nil {
		return m, core.E(core.Corrupt, "index meta record: %v", r.Err())
	}
	return m, nil
}
