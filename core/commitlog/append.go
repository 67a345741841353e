package commitlog

import (
	"fmt"
	"hash/crc32"

	"polylog/core"
	"polylog/core/vfs"
)

const (
	// gatherBytes is the size of the buffer in which small frames are put together.
	gatherBytes = 256 << 10
	// copyBytes is up to what size an entry's data is copied there; larger data is
	// written from where it is.
	copyBytes = 8 << 10
	// maxBufs bounds the buffers of one write.
	maxBufs = 512
	// markBytes and markGroups are how far the mark may lag behind what is synced.
	// At every group it would cost a second page, measured as 20 to 60 % of a sync.
	markBytes  = 1 << 20
	markGroups = 32
	// startBytes is how much of a group under FlushSync is written at a time, and on its
	// way to the disk while more is written: one write and one sync would leave the disk
	// idle during the former. With groups of some MiB that is 8 to 30 % of the throughput.
	startBytes = 512 << 10
)

var zeros [frameAlign]byte

// writer is the state of the one that appends, guarded by Log.appendMu.
type writer struct {
	vec    vfs.VecWriter
	gather []byte   // small frames, headers and padding
	taken  int      // how much of gather is in bufs
	bufs   [][]byte // what the next write consists of
	at     int64    // where the next write goes
	queued int64    // bytes in bufs and gather that wait for the write

	pos  []uint32 // offsets of the frames that are not yet visible
	sum  uint32
	seed uint32

	marked int64 // the durable offset in the last mark
	groups int   // groups since then
}

// begin makes w append to s.
func (w *writer) begin(s *segment) {
	w.at, w.sum, w.seed = s.end, s.sum, seedOf(s.base)
	w.marked, w.groups = s.end, 0
}

// put queues e's frame.
func (w *writer) put(e *Entry) {
	w.pos = append(w.pos, uint32(w.at+w.queued))
	at := len(w.gather)
	w.gather = appendFrameHeader(w.gather, w.seed, e)
	w.sum = crc32.Update(w.sum, castagnoli, w.gather[at:])
	if len(e.Data) > copyBytes {
		w.cutGather()
		w.bufs = append(w.bufs, e.Data)
	} else {
		w.gather = append(w.gather, e.Data...)
	}
	if len(e.Ext) > copyBytes {
		w.cutGather()
		w.bufs = append(w.bufs, e.Ext)
	} else {
		w.gather = append(w.gather, e.Ext...)
	}
	w.gather = append(w.gather, zeros[:padLen(len(e.Data), len(e.Ext))]...)
	w.queued += frameLen(len(e.Data), len(e.Ext))
}

// cutGather queues what was gathered since the last cut.
func (w *writer) cutGather() {
	if w.taken < len(w.gather) {
		w.bufs = append(w.bufs, w.gather[w.taken:])
		w.taken = len(w.gather)
	}
}

// full reports whether the queue must be written before another frame is put.
func (w *writer) full() bool {
	return len(w.gather) > gatherBytes-2*copyBytes-2*frameHeaderLen || len(w.bufs) > maxBufs-4
}

// flush writes the queue.
func (w *writer) flush(f vfs.File) error {
	w.cutGather()
	if len(w.bufs) == 0 {
		return nil
	}
	err := w.vec.WriteAt(f, w.bufs, w.at)
	w.at += w.queued
	clear(w.bufs)
	w.bufs, w.gather, w.taken, w.queued = w.bufs[:0], w.gather[:0], 0, 0
	return err
}

// Append adds entries, whose indexes must follow the last one without gaps and whose
// terms must not fall. When it returns nil they are as durable as the flush policy
// says, and visible to readers. It takes over Data and Ext: they must not change
// any more. After an error of kind Invalid or TooLarge nothing was done; after any
// other the log is unusable.
func (l *Log) Append(entries []Entry) error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if err := l.checkEntries(entries); err != nil {
		return err
	}
	for len(entries) > 0 {
		n := l.fitting(entries)
		if n == 0 {
			if err := l.roll(); err != nil {
				return l.fail(err)
			}
			continue
		}
		if err := l.appendPart(entries[:n]); err != nil {
			err = l.fail(err)
			_ = l.waitSealed() // its sync may fail too, and the process may end when this returns
			return err
		}
		entries = entries[n:]
	}
	return nil
}

func (l *Log) checkEntries(entries []Entry) error {
	l.mu.RLock()
	next := l.lastLocked() + 1
	term := l.terms.of(next - 1)
	l.mu.RUnlock()
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Index != next:
			return core.E(core.Invalid, "append of entry %d, want %d", e.Index, next)
		case e.Term < term:
			return core.E(core.Invalid, "append of entry %d with term %d after term %d", e.Index, e.Term, term)
		case len(e.Data) > MaxDataLen:
			return core.E(core.TooLarge, "entry %d: %d bytes of data, at most %d", e.Index, len(e.Data), MaxDataLen)
		case len(e.Ext) > MaxExtLen:
			return core.E(core.TooLarge, "entry %d: %d bytes of extension, at most %d", e.Index, len(e.Ext), MaxExtLen)
		}
		next, term = next+1, e.Term
	}
	return nil
}

// fitting is how many of the entries belong into the active segment. It depends on
// nothing but the entries and the segment size, so that replicas cut alike.
func (l *Log) fitting(entries []Entry) int {
	s := l.active // only changed under appendMu
	end, count := s.end, s.count
	for i := range entries {
		end += frameLen(len(entries[i].Data), len(entries[i].Ext))
		if end > l.o.SegmentBytes && count > 0 {
			return i
		}
		count++
	}
	return len(entries)
}

// appendPart appends entries to the active segment.
func (l *Log) appendPart(entries []Entry) error {
	s, w := l.active, &l.w
	w.pos = w.pos[:0]
	if err := l.moveMark(s); err != nil {
		return err
	}
	sync := l.o.Flush == FlushSync
	for i := range entries {
		if w.full() || sync && w.queued >= startBytes {
			at, n := w.at, w.queued
			if err := l.flushQueue(s); err != nil {
				return err
			}
			if sync {
				vfs.StartWriting(s.file, at, n)
			}
		}
		w.put(&entries[i])
	}
	if err := l.flushQueue(s); err != nil {
		return err
	}
	if sync {
		if err := s.file.SyncData(); err != nil {
			return l.syncFailed(s, err)
		}
		if err := l.Err(); err != nil {
			return err // the filler's sync was told of what was lost here
		}
	}
	l.publish(s, entries)
	return nil
}

func (l *Log) flushQueue(s *segment) error {
	l.overtakeFiller(l.w.at + l.w.queued)
	if err := l.w.flush(s.file); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return nil
}

// publish makes written entries visible.
func (l *Log) publish(s *segment, entries []Entry) {
	w := &l.w
	l.mu.Lock()
	defer l.mu.Unlock()
	s.pos = append(s.pos, w.pos...)
	s.count += len(entries)
	l.meanGroup += (w.at - s.end - l.meanGroup) / 8
	s.end, s.sum = w.at, w.sum
	for i := range entries {
		e := &entries[i]
		l.terms.add(e.Index, e.Term)
		l.cache.push(*e)
	}
	if l.o.Flush == FlushSync {
		l.synced = s.next() - 1
		s.syncedEnd = s.end
		w.groups++
	}
	if l.meanGroup < fillGroup {
		l.wakeFillerLocked(s.end)
	}
}

// moveMark writes what is known to be synced into the active segment's header, when
// that has grown enough.
func (l *Log) moveMark(s *segment) error {
	l.mu.RLock()
	end := s.syncedEnd
	l.mu.RUnlock()
	if end <= l.w.marked || end-l.w.marked < markBytes && l.w.groups < markGroups {
		return nil
	}
	return l.writeMark(s, end)
}

func (l *Log) writeMark(s *segment, durable int64) error {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	if err := l.Err(); err != nil {
		return err // the last mark has been written, or is about to be
	}
	l.w.marked, l.w.groups = durable, 0
	return s.putMark(mark{durable: uint32(durable), boot: l.o.boot})
}

func (s *segment) putMark(m mark) error {
	var b [markLen]byte
	m.put(b[:], seedOf(s.base))
	_, err := s.file.WriteAt(b[:], markAt)
	return err
}

// remark makes a mark of the active segment's end durable. The segment is synced.
func (l *Log) remark() error {
	s := l.active
	if err := l.writeMark(s, s.end); err != nil {
		return err
	}
	if err := s.file.SyncData(); err != nil {
		return l.syncFailed(s, err)
	}
	return nil
}
