package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/vfs"
	"polylog/core/wire"
)

// snapshotStore holds one snapshot, the latest. A snapshot has no state in it: the
// state is in the state machine's own checkpoint on disk, and the record only says
// up to where in the log that checkpoint reaches, for raft. The file is the record,
// and so is what travels in an InstallSnapshot RPC:
//
//	+--------+-------+----------------+---------------+---------+---------+------+
//	| "PLSN" | flags | index, uvarint | term, uvarint | durable | dead    | conf |
//	|        | u8    |                |               | uvarint | uvarint | index|
//	+--------+-------+----------------+---------------+---------+---------+------+
//	+---------------------------------+-----------------------+
//	| configuration, uvarint + bytes  | CRC32C of all, u32    |
//	+---------------------------------+-----------------------+
type snapshotStore struct {
	fs      vfs.FS
	name    string
	latest  atomic.Pointer[snapshot]
	resume  atomic.Pointer[snapshot] // an earlier one, of which another node holds all; see catchup.go
	holds   func(core.LogIndex, core.Term) bool
	install func(*snapshot) error // gets what a leader's snapshot covers, or refuses; sets dead
	saved   func(snapshot) error  // a snapshot is durable
}

type snapshot struct {
	index     core.LogIndex // the last entry that it covers
	term      core.Term
	durable   core.LogIndex // what the state machine had made durable: <= index
	dead      core.LogIndex // entries up to it nobody wants: the log may begin right after it
	installed bool          // it came from a leader: the log may lie wholly after it
	confIndex core.LogIndex
	conf      []byte // raft.EncodeConfiguration
}

const (
	snapshotName      = "snapshot"
	snapshotMagic     = "PLSN"
	snapshotInstalled = 1
)

var _ raft.SnapshotStore = (*snapshotStore)(nil)

func openSnapshots(fs vfs.FS, dir string) (*snapshotStore, error) {
	s := &snapshotStore{fs: fs, name: fs.PathJoin(dir, snapshotName)}
	b, err := vfs.ReadFile(fs, s.name)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read raft snapshot: %w", err)
	}
	snap, err := decodeSnapshot(b)
	if err != nil {
		return nil, fmt.Errorf("raft snapshot %s: %w", s.name, err)
	}
	s.latest.Store(&snap)
	return s, nil
}

func (s *snapshot) encode() []byte {
	b := append([]byte(nil), snapshotMagic...)
	var flags byte
	if s.installed {
		flags |= snapshotInstalled
	}
	b = append(b, flags)
	b = wire.AppendUvarint(b, uint64(s.index))
	b = wire.AppendUvarint(b, uint64(s.term))
	b = wire.AppendUvarint(b, uint64(s.durable))
	b = wire.AppendUvarint(b, uint64(s.dead))
	b = wire.AppendUvarint(b, uint64(s.confIndex))
	b = wire.AppendBytes(b, s.conf)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeSnapshot(b []byte) (s snapshot, err error) {
	body := len(b) - 4
	if body < len(snapshotMagic) || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return s, core.E(core.Corrupt, "%d bytes, not a snapshot record", len(b))
	}
	if got, want := crc32.Checksum(b[:body], castagnoli), binary.BigEndian.Uint32(b[body:]); got != want {
		return s, core.E(core.Corrupt, "checksum %08x, want %08x", got, want)
	}
	r := wire.NewReader(b[len(snapshotMagic):body])
	s.installed = r.Byte()&snapshotInstalled != 0
	s.index = core.LogIndex(r.Uvarint())
	s.term = core.Term(r.Uvarint())
	s.durable = core.LogIndex(r.Uvarint())
	s.dead = core.LogIndex(r.Uvarint())
	s.confIndex = core.LogIndex(r.Uvarint())
	s.conf = append([]byte(nil), r.Bytes()...)
	if err := r.Close(); err != nil {
		return s, core.E(core.Corrupt, "snapshot record: %v", err)
	}
	if s.index == 0 || s.durable > s.index || s.dead > s.index || s.confIndex > s.index {
		return s, core.E(core.Corrupt, "snapshot at %d with durable %d, dead %d and configuration %d", s.index, s.durable, s.dead, s.confIndex)
	}
	if _, err := decodeConfiguration(s.conf); err != nil {
		return s, err
	}
	return s, nil
}

// decodeConfiguration is raft's decoder, which panics, as one that returns an error.
func decodeConfiguration(b []byte) (conf raft.Configuration, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = core.E(core.Corrupt, "raft configuration of %d bytes: %v", len(b), r)
		}
	}()
	return raft.DecodeConfiguration(b), nil
}

func (s *snapshot) id() string { return fmt.Sprintf("%d-%d", s.term, s.index) }

func (s *snapshot) meta() *raft.SnapshotMeta {
	conf, _ := decodeConfiguration(s.conf) // checked when it was read or made
	return &raft.SnapshotMeta{
		Version: 1, ID: s.id(),
		Index: uint64(s.index), Term: uint64(s.term),
		Configuration: conf, ConfigurationIndex: uint64(s.confIndex),
		Size: int64(len(s.encode())),
	}
}

// List implements raft.SnapshotStore. It is what raft sends to a node that lacks entries
// which the log has lost.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	snap := s.latest.Load()
	if snap == nil {
		return nil, nil
	}
	if r := s.resume.Load(); r != nil && r.index < snap.index && s.holds(r.index, r.term) {
		snap = r
	}
	return []*raft.SnapshotMeta{snap.meta()}, nil
}

// Open implements raft.SnapshotStore.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	for _, snap := range []*snapshot{s.resume.Load(), s.latest.Load()} {
		if snap != nil && snap.id() == id {
			return snap.meta(), io.NopCloser(bytes.NewReader(snap.encode())), nil
		}
	}
	return nil, nil, core.E(core.NotFound, "no snapshot %s", id)
}

// Create implements raft.SnapshotStore.
func (s *snapshotStore) Create(_ raft.SnapshotVersion, index, term uint64, conf raft.Configuration,
	confIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	return &sink{store: s, snap: snapshot{
		index: core.LogIndex(index), term: core.Term(term),
		confIndex: core.LogIndex(confIndex), conf: raft.EncodeConfiguration(conf),
	}}, nil
}

// sink takes one snapshot: from ourselves by local, or from a leader by Write.
type sink struct {
	store    *snapshotStore
	snap     snapshot
	local    bool
	received []byte
	closed   bool
}

// maxSnapshotRecord bounds what a leader may send, in bytes.
const maxSnapshotRecord = 1 << 20

// ID implements raft.SnapshotSink.
func (k *sink) ID() string { return k.snap.id() }

// Write implements raft.SnapshotSink: a piece of a leader's record.
func (k *sink) Write(b []byte) (int, error) {
	if len(k.received)+len(b) > maxSnapshotRecord {
		return 0, core.E(core.TooLarge, "snapshot record longer than %d bytes", maxSnapshotRecord)
	}
	k.received = append(k.received, b...)
	return len(b), nil
}

// Close implements raft.SnapshotSink: the snapshot becomes the latest, durably. A
// leader's is refused where what it covers cannot be had, so that the record never
// claims entries whose effects are nowhere.
func (k *sink) Close() error {
	if k.closed {
		return nil
	}
	k.closed = true
	if !k.local {
		got, err := decodeSnapshot(k.received)
		if err != nil {
			return fmt.Errorf("snapshot from the leader: %w", err)
		}
		k.snap.durable, k.snap.installed = got.durable, true
		if err := k.store.install(&k.snap); err != nil {
			return err
		}
	}
	if err := vfs.WriteFile(k.store.fs, k.store.name, k.snap.encode()); err != nil {
		return fmt.Errorf("write raft snapshot: %w", err)
	}
	k.store.latest.Store(&k.snap)
	return k.store.saved(k.snap)
}

// Cancel implements raft.SnapshotSink.
func (k *sink) Cancel() error {
	k.closed = true
	return nil
}
