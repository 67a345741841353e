package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"polylog/core"
	"polylog/core/wire"
)

// The service "files": a node that lacks what raft cannot give it any more, or whose
// copy is damaged, fetches files from another one. It asks, one request after the
// other, and each is answered before the next:
//
//	request                                  answer
//	'M' snapshot record, may be empty        'R', or 'M' length u64 and so many bytes
//	'F' number, offset (uvarint), n uvarint  n bytes of a file of the manifest's index
//	'S' base, offset (uvarint), n uvarint    n bytes of a segment
//	'P' base, uvarint                        'P' and the portion, as in the manifest
//
// Bytes come in pieces, 'D' and up to pieceBytes each. An error ends the stream.
//
// 'R' says that the log goes on from the snapshot of the record: the other node holds
// all before, and raft sends the rest. See catchup.go.
const (
	filesService = "files"

	askManifest byte = 'M'
	askFile     byte = 'F'
	askSegment  byte = 'S'
	askPortion  byte = 'P'
	sayResume   byte = 'R'
	sayData     byte = 'D'

	pieceBytes = 256 << 10
	maxAsked   = 8 << 20 // bytes of a file or segment in one request
)

// export is a state that other nodes may fetch: a copy of the index, and the log, which
// is not trimmed while the export lives.
type export struct {
	dir      string // of the copy; made when it is
	manifest *manifest
	encoded  []byte
	made     time.Time
	used     time.Time // last; guarded by exports.mu
	sessions int       // guarded by exports.mu
}

// exports are a node's; nearly always none or one.
type exports struct {
	making sync.Mutex // held while one is made

	mu    sync.Mutex // held while the log is trimmed
	all   []*export  // guarded by mu
	count int        // of all ever made; guarded by mu

	// grace is how long an export outlives its last use, so that who has fetched it
	// finds the log that goes on from it; fresh is how old one that is given away again
	// may be. Tests change them before the node is opened.
	grace, fresh time.Duration
}

func (x *exports) init() { x.grace, x.fresh = time.Minute, 10*time.Minute }

const exportsName = "exports"

// acquireExport is an export for a session: an existing one if that is fresh, unless it
// has to be of now.
func (n *Node) acquireExport(ctx context.Context, now bool) (*export, error) {
	x := &n.exports
	x.making.Lock()
	defer x.making.Unlock()
	if now {
		if err := n.checkpointNow(ctx); err != nil {
			return nil, err
		}
	}
	x.mu.Lock()
	for _, e := range x.all {
		if !now && time.Since(e.made) < x.fresh {
			e.sessions++
			x.mu.Unlock()
			return e, nil
		}
	}
	x.count++
	e := &export{dir: n.o.FS.PathJoin(n.o.Dir, exportsName, fmt.Sprint(x.count)), made: time.Now(), sessions: 1}
	x.all = append(x.all, e) // from here on the log keeps its front
	x.mu.Unlock()
	if err := n.makeExport(ctx, e); err != nil {
		e.made = time.Time{} // not to be given away
		n.releaseExport(e)
		return nil, err
	}
	return e, nil
}

// currentTimeout bounds how long a backup waits for a leader to confirm what is committed.
const currentTimeout = 5 * time.Second

// checkpointNow makes a checkpoint of everything that was acknowledged before. Where no
// leader confirms that it has all of that, there is none: an old state that is taken for a
// new one is no backup.
func (n *Node) checkpointNow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, currentTimeout)
	defer cancel()
	if err := n.ReadIndex(ctx); err != nil {
		n.o.Logger.Warn("no backup: this node may lack what was acknowledged", "err", err)
		return core.E(core.NotLeader, "node %s cannot give a backup that has everything: no leader of the cluster has confirmed it: %v", n.o.NodeID, err)
	}
	n.checkpoint()
	return nil
}

func (n *Node) makeExport(ctx context.Context, e *export) error {
	fs := n.o.FS
	pace := func(k int) error { return n.pace.wait(ctx, k) }
	for attempt := 0; ; attempt++ {
		if err := fs.RemoveAll(e.dir); err != nil {
			return err
		}
		n.checkpointing.Lock() // the record and the index are of the same checkpoint
		snap := n.snapshots.latest.Load()
		applied, err := n.machine.SaveTo(e.dir)
		n.checkpointing.Unlock()
		if err != nil {
			return fmt.Errorf("copy the index for another node: %w", err)
		}
		if snap == nil || applied > snap.index || !n.logHolds(snap.index, snap.term) {
			if attempt > 2 {
				return core.E(core.Unavailable, "this node has no checkpoint to give away yet")
			}
			n.checkpoint()
			continue
		}
		m := &manifest{cluster: n.home.clusterID, made: n.o.Clock().UnixMilli(), applied: applied, snap: *snap}
		m.snap.installed = false // with the log that belongs to it, it is as good as the node's own
		if m.segments, err = n.log.Portions(snap.index); err != nil {
			return err
		}
		if m.files, err = listFiles(fs, e.dir, pace); err != nil {
			return err
		}
		if err := m.check(); err != nil {
			return err
		}
		e.manifest, e.encoded = m, m.encode()
		n.o.Logger.Info("state made ready for other nodes", "index", uint64(snap.index), "files", len(m.files)+len(m.segments), "bytes", m.bytes())
		return nil
	}
}

// releaseExport ends a session's use of e.
func (n *Node) releaseExport(e *export) {
	n.exports.mu.Lock()
	e.sessions--
	e.used = time.Now()
	n.exports.mu.Unlock()
	n.dropExports(false)
}

// dropExports removes the exports that have served their time, or all.
func (n *Node) dropExports(all bool) {
	x := &n.exports
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = slices.DeleteFunc(x.all, func(e *export) bool {
		if !all && (e.sessions > 0 || !e.made.IsZero() && time.Since(e.used) < x.grace) {
			return false
		}
		if err := n.o.FS.RemoveAll(e.dir); err != nil {
			n.o.Logger.Warn("copy of the index not removed", "dir", e.dir, "err", err)
		}
		return true
	})
}

// serveFiles serves one stream of the service.
func (n *Node) serveFiles(_ string, s core.Stream) error { return n.giveFiles(s, n.resume, false) }

// serveBackup serves one stream of the service to who is no node.
func (n *Node) serveBackup(_ string, s core.Stream) error {
	return n.giveFiles(s, func([]byte) bool { return false }, true)
}

func (n *Node) giveFiles(s core.Stream, resume func(record []byte) bool, now bool) error {
	var e *export
	defer func() {
		if e != nil {
			n.releaseExport(e)
		}
	}()
	piece := make([]byte, 0, 1+pieceBytes)
	for {
		b, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		r := wire.NewReader(b)
		switch ask := r.Byte(); ask {
		case askManifest:
			record := r.Rest()
			if len(record) > 0 && resume(record) {
				err = s.Send([]byte{sayResume})
				break
			}
			if e == nil {
				if e, err = n.acquireExport(s.Context(), now); err != nil {
					break
				}
			}
			if err = s.Send(wire.AppendUint64([]byte{askManifest}, uint64(len(e.encoded)))); err == nil {
				err = n.sendPieces(s, piece, int64(len(e.encoded)), func(b []byte, off int64) error {
					copy(b, e.encoded[off:])
					return nil
				})
			}
		case askFile, askSegment:
			id, off, count := r.Uvarint(), int64(r.Uvarint()), int64(r.Uvarint())
			if r.Close() != nil || off < 0 || count <= 0 || count > maxAsked {
				return core.E(core.Invalid, "files: request %x", b)
			}
			if ask == askSegment {
				err = n.sendPieces(s, piece, count, func(b []byte, at int64) error {
					return n.log.ReadSegment(core.LogIndex(id), off+at, b)
				})
			} else {
				err = n.sendFile(s, e, piece, id, off, count)
			}
		case askPortion:
			p, ok := n.log.Sealed(core.LogIndex(r.Uvarint()))
			if !ok || r.Close() != nil || p.Next-1 > n.machine.Applied() {
				return core.E(core.NotFound, "files: this node has no such sealed segment")
			}
			err = s.Send(appendPortion([]byte{askPortion}, p))
		default:
			return core.E(core.Unsupported, "files: request %q, which this version of polylog does not know", ask)
		}
		if err != nil {
			return err
		}
	}
}

func (n *Node) sendFile(s core.Stream, e *export, piece []byte, id uint64, off, count int64) (err error) {
	if e == nil || id >= uint64(len(e.manifest.files)) {
		return core.E(core.NotFound, "files: no file %d", id)
	}
	f, err := n.o.FS.Open(n.o.FS.PathJoin(e.dir, e.manifest.files[id].name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return n.sendPieces(s, piece, count, func(b []byte, at int64) error {
		_, err := io.ReadFull(io.NewSectionReader(f, off+at, int64(len(b))), b)
		return err
	})
}

// sendPieces sends count bytes, which read reads. piece is scratch.
func (n *Node) sendPieces(s core.Stream, piece []byte, count int64, read func(b []byte, off int64) error) error {
	for off := int64(0); off < count; {
		k := int(min(pieceBytes, count-off))
		if err := n.pace.wait(s.Context(), k); err != nil {
			return err
		}
		piece = append(piece[:0], sayData)[:1+k]
		if err := read(piece[1:], off); err != nil {
			return err
		}
		if err := s.Send(piece); err != nil {
			return err
		}
		n.filesSent.Add(int64(k))
		off += int64(k)
	}
	return nil
}

// resume makes the snapshot of the record what raft sends to nodes that lack entries
// which the log has lost, if the log goes on from it.
func (n *Node) resume(record []byte) bool {
	s, err := decodeSnapshot(record)
	if err != nil || !n.logHolds(s.index, s.term) {
		return false
	}
	n.snapshots.resume.Store(&s)
	return true
}

// pacer spreads work over time.
type pacer struct {
	rate int64 // bytes a second; 0: as fast as it goes

	mu   sync.Mutex
	free time.Time // guarded by mu: when the next byte may go
}

// wait waits until k bytes may go, or the context ends.
func (p *pacer) wait(ctx context.Context, k int) error {
	if p.rate <= 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	at := p.free
	if now := time.Now(); at.Before(now) {
		at = now
	}
	p.free = at.Add(time.Duration(float64(k) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
