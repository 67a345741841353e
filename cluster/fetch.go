package cluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
	"polylog/core/wire"
)

// The parts of a state that is being fetched, in a directory of its own; a backup has
// them too.
const (
	incomingName = "incoming" // being fetched
	arrivedName  = "arrived"  // whole, to be taken over; see takeover.go
	indexName    = "index"
)

// fetcher fetches files from another node over a stream of the service "files". It
// believes nothing: every length is bounded, and no file counts before it was read back
// and found to be what the manifest says.
type fetcher struct {
	fs       vfs.FS
	dir      string // where the files go
	stream   core.Stream
	received *atomic.Int64    // bytes
	whole    map[string]terms // by path: files that are as they have to be
}

// terms are those of the entry before a segment and of its last one.
type terms struct{ before, last core.Term }

// manifest asks for the other node's manifest, which must be of that cluster, if one is
// given. It is nil where the other node's log goes
// on from record, a snapshot's; see resume.
func (f *fetcher) manifest(cluster string, record []byte) (*manifest, error) {
	if err := f.stream.Send(append([]byte{askManifest}, record...)); err != nil {
		return nil, f.lost(err)
	}
	b, err := f.stream.Recv()
	if err != nil {
		return nil, err
	}
	if len(record) > 0 && len(b) == 1 && b[0] == sayResume {
		return nil, nil
	}
	r := wire.NewReader(b)
	kind, size := r.Byte(), r.Uint64()
	if r.Close() != nil || kind != askManifest {
		return nil, core.E(core.Corrupt, "files: an answer of %d bytes to a request for the manifest", len(b))
	}
	if size > maxManifest {
		return nil, core.E(core.TooLarge, "manifest of %d bytes, at most %d", size, maxManifest)
	}
	var encoded []byte
	err = f.pieces(int64(size), func(b []byte) error { encoded = append(encoded, b...); return nil })
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(encoded)
	if err == nil && cluster != "" && m.cluster != cluster {
		err = core.E(core.Conflict, "files: a manifest of cluster %s, this node belongs to %s", m.cluster, cluster)
	}
	return m, err
}

// lost is why nothing can be sent any more, which only Recv knows.
func (f *fetcher) lost(err error) error {
	if _, why := f.stream.Recv(); why != nil {
		return why
	}
	return err
}

// pieces receives size bytes.
func (f *fetcher) pieces(size int64, take func([]byte) error) error {
	for size > 0 {
		b, err := f.stream.Recv()
		if err != nil {
			return err
		}
		if len(b) < 2 || b[0] != sayData || int64(len(b)-1) > size {
			return core.E(core.Corrupt, "files: a message of %d bytes where %d bytes of data were to come", len(b), size)
		}
		if err := take(b[1:]); err != nil {
			return err
		}
		f.received.Add(int64(len(b) - 1))
		size -= int64(len(b) - 1)
	}
	return nil
}

// prepare makes the directory ready for m's files. What it holds of them already stays,
// be it a part; anything else goes.
func (f *fetcher) prepare(m *manifest) error {
	name := f.fs.PathJoin(f.dir, manifestName)
	var had *manifest
	b, err := vfs.ReadFile(f.fs, name)
	if err == nil {
		had, err = decodeManifest(b)
	}
	if err != nil {
		if err := f.fs.RemoveAll(f.dir); err != nil {
			return err
		}
		had = &manifest{}
	}
	for _, sub := range []string{logName, indexName} {
		dir := f.fs.PathJoin(f.dir, sub)
		if err := f.fs.MkdirAll(dir, homePerm); err != nil {
			return err
		}
		names, err := f.fs.List(dir)
		if err != nil {
			return err
		}
		for _, file := range names {
			if !m.wants(had, sub, file) {
				if err := f.fs.RemoveAll(f.fs.PathJoin(dir, file)); err != nil {
					return err
				}
				delete(f.whole, f.fs.PathJoin(dir, file))
			}
		}
	}
	if err := vfs.WriteFile(f.fs, name, m.encode()); err != nil {
		return err
	}
	return vfs.SyncDir(f.fs, f.fs.PathDir(f.dir))
}

// wants reports whether a file that was fetched for the manifest had is one of m's.
func (m *manifest) wants(had *manifest, sub, file string) bool {
	if sub == indexName {
		same := func(a indexFile) bool { return a.name == file }
		i, j := slices.IndexFunc(m.files, same), slices.IndexFunc(had.files, same)
		return i >= 0 && j >= 0 && m.files[i] == had.files[j]
	}
	same := func(p commitlog.Portion) bool { name, _ := commitlog.SegmentName(p.Base); return name == file }
	i, j := slices.IndexFunc(m.segments, same), slices.IndexFunc(had.segments, same)
	return i >= 0 && j >= 0 && m.segments[i] == had.segments[j]
}

// all fetches everything that m names and makes it durable.
func (f *fetcher) all(m *manifest) error {
	if err := f.prepare(m); err != nil {
		return fmt.Errorf("prepare %s: %w", f.dir, err)
	}
	if err := f.room(m); err != nil {
		return err
	}
	for i, file := range m.files {
		path := f.fs.PathJoin(f.dir, indexName, file.name)
		if err := f.file(path, file.bytes, askFile, uint64(i), file.check(f.fs, path)); err != nil {
			return err
		}
	}
	var term core.Term
	for i, p := range m.segments {
		name, _ := commitlog.SegmentName(p.Base)
		path := f.fs.PathJoin(f.dir, logName, name)
		err := f.file(path, p.Bytes, askSegment, uint64(p.Base), func() (t terms, err error) {
			_, t.before, t.last, err = commitlog.CheckPortion(f.fs, path, p)
			return t, err
		})
		if err != nil {
			return err
		}
		t := f.whole[path]
		if i > 0 && t.before != term {
			return f.senseless(core.E(core.Corrupt, "%s: follows an entry of term %d, the entry before it has term %d", path, t.before, term))
		}
		term = t.last
	}
	if term != m.snap.term {
		return f.senseless(core.E(core.Corrupt, "the files' last entry has term %d, raft's snapshot %d", term, m.snap.term))
	}
	for _, dir := range []string{f.fs.PathJoin(f.dir, logName), f.fs.PathJoin(f.dir, indexName), f.dir} {
		if err := vfs.SyncDir(f.fs, dir); err != nil {
			return err
		}
	}
	return nil
}

// senseless gives up on files that are what their manifest says and fit no log.
func (f *fetcher) senseless(err error) error {
	clear(f.whole)
	return errors.Join(err, f.fs.RemoveAll(f.dir))
}

func (i indexFile) check(fs vfs.FS, path string) func() (terms, error) {
	return func() (terms, error) {
		bytes, crc, err := sumFile(fs, path, func(int) error { return nil })
		if err == nil && (bytes != i.bytes || crc != i.crc) {
			err = core.E(core.Corrupt, "%s: %d bytes with checksum %08x, want %d with %08x", path, bytes, crc, i.bytes, i.crc)
		}
		return terms{}, err
	}
}

// room refuses what does not fit on the disk beside what the node itself may need.
func (f *fetcher) room(m *manifest) error {
	have := int64(0)
	for _, sub := range []string{logName, indexName} {
		names, err := f.fs.List(f.fs.PathJoin(f.dir, sub))
		if err != nil {
			return err
		}
		for _, name := range names {
			if st, err := f.fs.Stat(f.fs.PathJoin(f.dir, sub, name)); err == nil {
				have += st.Size()
			}
		}
	}
	return f.fits(m.bytes() - have)
}

// fits refuses to write n bytes where that would leave less than the reserve twice.
func (f *fetcher) fits(n int64) error {
	u, err := f.fs.GetDiskUsage(f.fs.PathDir(f.dir))
	if err == nil && n > 0 && uint64(n)+2*reserveBytes > u.AvailBytes {
		return core.E(core.Limit, "the disk of %s has %d bytes left: too few to fetch %d bytes and keep %d", f.dir, u.AvailBytes, n, 2*reserveBytes)
	}
	return nil
}

// file fetches what is missing of one file, and checks the whole.
func (f *fetcher) file(path string, size int64, ask byte, id uint64, check func() (terms, error)) (err error) {
	if _, ok := f.whole[path]; ok {
		return nil
	}
	file, err := f.fs.OpenReadWrite(path, vfs.Category)
	if errors.Is(err, os.ErrNotExist) {
		file, err = f.fs.Create(path, vfs.Category)
	}
	if err != nil {
		return err
	}
	st, err := file.Stat()
	if err == nil && st.Size() <= size {
		err = f.fill(file, st.Size(), size, ask, id)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	t, err := check()
	if err != nil {
		return errors.Join(err, f.fs.Remove(path)) // next time from the front
	}
	f.whole[path] = t
	return nil
}

func (f *fetcher) fill(file vfs.File, off, size int64, ask byte, id uint64) error {
	for off < size {
		n := min(maxAsked, size-off)
		if err := f.fits(n); err != nil {
			return err
		}
		b := wire.AppendUvarint([]byte{ask}, id)
		b = wire.AppendUvarint(wire.AppendUvarint(b, uint64(off)), uint64(n))
		if err := f.stream.Send(b); err != nil {
			return f.lost(err)
		}
		err := f.pieces(n, func(b []byte) error {
			k, err := file.WriteAt(b, off)
			off += int64(k)
			return err
		})
		if err == nil {
			err = file.SyncData() // a disk that is full says so, and the page cache stays clean
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// segment fetches one sealed segment to path and checks it; see CheckPortion about
// want.
func (f *fetcher) segment(want commitlog.Portion, path string) (got commitlog.Portion, err error) {
	if err := f.stream.Send(wire.AppendUvarint([]byte{askPortion}, uint64(want.Base))); err != nil {
		return got, f.lost(err)
	}
	b, err := f.stream.Recv()
	if err != nil {
		return got, err
	}
	r := wire.NewReader(b)
	kind, p := r.Byte(), readPortion(&r)
	if r.Close() != nil || kind != askPortion {
		return got, core.E(core.Corrupt, "files: an answer of %d bytes to a request for a segment", len(b))
	}
	if p.Base != want.Base || p.Next > want.Next || p.Bytes <= 0 || p.Bytes > maxManifestFile || want.Bytes > 0 && p != want {
		return got, core.E(core.Conflict, "files: that node's segment of entries %d to %d has %d bytes and checksum %08x, want entries %d to %d, %d bytes, %08x",
			p.Base, p.Next-1, p.Bytes, p.Sum, want.Base, want.Next-1, want.Bytes, want.Sum)
	}
	err = f.file(path, p.Bytes, askSegment, uint64(p.Base), func() (t terms, err error) {
		got, t.before, t.last, err = commitlog.CheckPortion(f.fs, path, p)
		return t, err
	})
	return got, err
}
