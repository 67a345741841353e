package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"polylog/core"
	"polylog/core/vfs"
)

// Names of files in the directory.
const (
	segmentExt  = ".log"
	tableExt    = ".tab"
	tmpExt      = ".tmp"
	intentName  = "intent"
	sparePrefix = "spare-"
)

// maxHeldPositions is how many positions of a sealed segment are kept in memory;
// longer tables are read from their file at each look-up.
const maxHeldPositions = 16 << 10

// segment is one file of the log.
type segment struct {
	segmentHeader
	path string

	// use is held for reading while the file is read, and for writing before the
	// file is closed, overwritten or handed on.
	use  sync.RWMutex
	file *sharedFile // nil when closed

	// See lend.go.
	unscanned int         // entries that Open did not read: it had the table
	checked   checkedSet  // those of them that were checked since
	lent      atomic.Bool // the file must not be overwritten: it may still be on its way

	// The rest is guarded by Log.mu.
	count     int
	end       int64  // offset after the last frame
	sum       uint32 // see table.go
	syncedEnd int64  // what is before it is on the disk; headerLen <= syncedEnd <= end
	sealed    bool
	pos       []uint32 // offsets of the frames; nil when they are only in the table file
	table     vfs.File // set when they are
	tabled    int64    // where the offsets begin in table
}

// next is the index of the entry that would follow the segment.
func (s *segment) next() core.LogIndex { return s.base + core.LogIndex(s.count) }

func (h segmentHeader) initialSum() uint32 {
	return crc32.Checksum(h.page(nil)[:36], castagnoli)
}

// position is the offset of entry i's frame.
func (s *segment) position(i core.LogIndex) (int64, error) {
	n := int64(i - s.base)
	if s.table == nil {
		return int64(s.pos[n]), nil
	}
	var b [4]byte
	if _, err := s.table.ReadAt(b[:], s.tabled+4*n); err != nil {
		return 0, fmt.Errorf("position of entry %d in %s: %w", i, s.path, err)
	}
	return int64(binary.BigEndian.Uint32(b[:])), nil
}

// close closes the segment's files after its last reader; what was lent stays open until it
// is given back. It may be called twice.
func (s *segment) close() (err error) {
	s.use.Lock()
	defer s.use.Unlock()
	if s.file == nil {
		return nil
	}
	if s.table != nil {
		err = s.table.Close()
	}
	err = errors.Join(err, s.file.Close())
	s.file = nil
	return err
}

func fileName(base core.LogIndex, ext string) string { return fmt.Sprintf("%020d%s", base, ext) }

// parseName is the base index in a file's name.
func parseName(name, ext string) (core.LogIndex, bool) {
	digits, ok := strings.CutSuffix(name, ext)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return core.LogIndex(n), err == nil
}

// readPage reads a segment's first page and checks it against the file's name.
func readPage(f vfs.File, path string, base core.LogIndex) (segmentHeader, []byte, error) {
	page := make([]byte, headerLen)
	n, err := f.ReadAt(page, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return segmentHeader{}, nil, fmt.Errorf("read %s: %w", path, err)
	}
	h, err := parseSegmentHeader(page[:n], path)
	if err == nil && h.base != base {
		err = core.E(core.Corrupt, "%s: the header says that it begins at entry %d", path, h.base)
	}
	return h, page, err
}

func fileSize(f vfs.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
