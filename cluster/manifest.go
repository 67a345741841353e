package cluster

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
	"polylog/core/wire"
)

// manifest describes a node's state as files: what another node fetches when it is
// outside the log's retention, and what a backup consists of. The log's entries up to
// snap.index and the index, which contains those up to applied, are all there is.
//
//	+--------+---------+------------+---------------+----------+------------------+
//	| "PLMF" | version | cluster id | made, uvarint | applied, | snapshot record, |
//	|        | u8      | uvarint +  | ms since 1970 | uvarint  | uvarint + bytes, |
//	|        |         | bytes      |               |          | see snapshot.go  |
//	+--------+---------+------------+---------------+----------+------------------+
//	| segments, uvarint | per segment: base, next, bytes (uvarint), sum u32       |
//	+-------------------+----------------------------------------------------------+
//	| files, uvarint    | per file: name (uvarint + bytes), bytes (uvarint), CRC32C|
//	|                   | of the content, u32                                      |
//	+-------------------+------------------------+---------------------------------+
//	| CRC32C of all, u32                         |
//	+--------------------------------------------+
//
// Segments follow on each other and end with snap.index. Files are the index's, all in
// one directory, in the order of their names.
type manifest struct {
	cluster  string
	made     int64
	applied  core.LogIndex
	snap     snapshot
	segments []commitlog.Portion
	files    []indexFile
}

// indexFile is one file of the index.
type indexFile struct {
	name  string
	bytes int64
	crc   uint32
}

const (
	manifestName    = "manifest"
	manifestMagic   = "PLMF"
	manifestVersion = 1

	// Bounds of what a node believes: of the manifest's length in bytes, of its files
	// and segments each, and of the length of one of them.
	maxManifest      = 8 << 20
	maxManifestFiles = 1 << 16
	maxManifestFile  = 1 << 44
)

func (m *manifest) encode() []byte {
	b := append([]byte(manifestMagic), manifestVersion)
	b = wire.AppendString(b, m.cluster)
	b = wire.AppendUvarint(b, uint64(m.made))
	b = wire.AppendUvarint(b, uint64(m.applied))
	b = wire.AppendBytes(b, m.snap.encode())
	b = wire.AppendUvarint(b, uint64(len(m.segments)))
	for _, s := range m.segments {
		b = appendPortion(b, s)
	}
	b = wire.AppendUvarint(b, uint64(len(m.files)))
	for _, f := range m.files {
		b = wire.AppendString(b, f.name)
		b = wire.AppendUvarint(b, uint64(f.bytes))
		b = wire.AppendUint32(b, f.crc)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func appendPortion(b []byte, p commitlog.Portion) []byte {
	b = wire.AppendUvarint(b, uint64(p.Base))
	b = wire.AppendUvarint(b, uint64(p.Next))
	b = wire.AppendUvarint(b, uint64(p.Bytes))
	return wire.AppendUint32(b, p.Sum)
}

func readPortion(r *wire.Reader) commitlog.Portion {
	return commitlog.Portion{
		Base: core.LogIndex(r.Uvarint()), Next: core.LogIndex(r.Uvarint()), Bytes: int64(r.Uvarint()), Sum: r.Uint32(),
	}
}

// decodeManifest refuses what is damaged, and what no node of ours would write: it comes
// from another machine, and names files that will be written.
func decodeManifest(b []byte) (*manifest, error) {
	body := len(b) - 4
	if body < len(manifestMagic)+1 || string(b[:len(manifestMagic)]) != manifestMagic {
		return nil, core.E(core.Corrupt, "%d bytes, not a manifest", len(b))
	}
	if len(b) > maxManifest {
		return nil, core.E(core.TooLarge, "manifest of %d bytes, at most %d", len(b), maxManifest)
	}
	if got, want := crc32.Checksum(b[:body], castagnoli), binary.BigEndian.Uint32(b[body:]); got != want {
		return nil, core.E(core.Corrupt, "manifest: checksum %08x, want %08x", got, want)
	}
	r := wire.NewReader(b[len(manifestMagic):body])
	if v := r.Byte(); v != manifestVersion {
		return nil, core.E(core.Unsupported, "manifest of version %d; this version of polylog knows version %d", v, manifestVersion)
	}
	m := &manifest{cluster: r.String(), made: int64(r.Uvarint()), applied: core.LogIndex(r.Uvarint())}
	record := r.Bytes()
	m.segments = make([]commitlog.Portion, r.Count(7))
	for i := range m.segments {
		m.segments[i] = readPortion(&r)
	}
	m.files = make([]indexFile, r.Count(6))
	for i := range m.files {
		m.files[i] = indexFile{name: r.String(), bytes: int64(r.Uvarint()), crc: r.Uint32()}
	}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "manifest: %v", err)
	}
	var err error
	if m.snap, err = decodeSnapshot(record); err != nil {
		return nil, err
	}
	return m, m.check()
}

// check refuses a manifest that makes no sense.
func (m *manifest) check() error {
	switch {
	case !validUUID(m.cluster) || m.made < 0:
		return core.E(core.Corrupt, "manifest: of cluster %.40q, made at %d", m.cluster, m.made)
	case m.snap.installed || m.applied > m.snap.index || m.applied < m.snap.durable:
		return core.E(core.Corrupt, "manifest: the index is at entry %d, raft's snapshot at %d with %d durable", m.applied, m.snap.index, m.snap.durable)
	case len(m.segments) == 0 || len(m.segments) > maxManifestFiles || len(m.files) == 0 || len(m.files) > maxManifestFiles:
		return core.E(core.Corrupt, "manifest: %d segments and %d files, want 1 to %d of each", len(m.segments), len(m.files), maxManifestFiles)
	case m.segments[0].Base > m.snap.dead+1:
		return core.E(core.Corrupt, "manifest: begins with entry %d, want one up to %d", m.segments[0].Base, m.snap.dead+1)
	}
	next := max(1, m.segments[0].Base)
	for _, s := range m.segments {
		if s.Base != next || s.Next <= s.Base || s.Bytes <= 0 || s.Bytes > maxManifestFile {
			return core.E(core.Corrupt, "manifest: segment of entries %d to %d, %d bytes, where entry %d is expected", s.Base, s.Next-1, s.Bytes, next)
		}
		next = s.Next
	}
	if next != m.snap.index+1 {
		return core.E(core.Corrupt, "manifest: segments up to entry %d, raft's snapshot is at %d", next-1, m.snap.index)
	}
	for i, f := range m.files {
		if !plainName(f.name) || i > 0 && f.name <= m.files[i-1].name || f.bytes < 0 || f.bytes > maxManifestFile {
			return core.E(core.Corrupt, "manifest: file %.80q of %d bytes", f.name, f.bytes)
		}
	}
	return nil
}

// plainName reports whether name is one of a file in a directory, and of such letters
// as Pebble's files have: it leads nowhere else on any system.
func plainName(name string) bool {
	if name == "" || len(name) > 100 || name[0] == '.' {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// bytes is the length of everything that the manifest names.
func (m *manifest) bytes() (n int64) {
	for _, s := range m.segments {
		n += s.Bytes
	}
	for _, f := range m.files {
		n += f.bytes
	}
	return n
}

// listFiles describes the files in dir, an index's, reading all of them.
func listFiles(fs vfs.FS, dir string, pace func(int) error) ([]indexFile, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []indexFile
	for _, name := range names {
		f := indexFile{name: name}
		if f.bytes, f.crc, err = sumFile(fs, fs.PathJoin(dir, name), pace); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// sumFile is the length and the CRC32C of a file.
func sumFile(fs vfs.FS, name string, pace func(int) error) (n int64, crc uint32, err error) {
	f, err := fs.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, pieceBytes)
	for {
		if err := pace(len(buf)); err != nil {
			return n, crc, err
		}
		k, err := f.Read(buf)
		crc = crc32.Update(crc, castagnoli, buf[:k])
		n += int64(k)
		if errors.Is(err, io.EOF) {
			return n, crc, nil
		}
		if err != nil {
			return n, crc, err
		}
	}
}
