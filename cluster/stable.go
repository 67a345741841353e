package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/vfs"
)

// stableStore keeps the three values that raft must never forget: the current term,
// and the term and candidate of the last vote. (guard 2: raft sets the two halves
// of a vote one after the other; the term is held back in memory until the candidate
// comes, and one record takes both.)
//
// The file has two slots of stableSlot bytes, written in turn; the valid one with
// the higher sequence holds. A write that a crash tore leaves the other. A slot,
// big-endian:
//
//	 0        4         12      20          28       30           30+n
//	+--------+---------+-------+-----------+--------+------------+-----------+
//	| "PLVT" | sequence| term  | vote term | n, u16 | candidate  | CRC32C of |
//	|        | u64     | u64   | u64       |        | n bytes    | all, u32  |
//	+--------+---------+-------+-----------+--------+------------+-----------+
type stableStore struct {
	file   vfs.File
	fail   func(error) error // ends the process; see failure.go
	watch  *stallWatch
	seq    uint64
	term   uint64
	vote   vote
	staged uint64 // term of a vote whose candidate has not come yet
}

type vote struct {
	term      uint64
	candidate []byte // nil: never voted
}

const (
	stableName   = "vote"
	stableSlot   = 4096
	stableMagic  = "PLVT"
	stableHeader = 30
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	keyTerm          = "CurrentTerm"
	keyVoteTerm      = "LastVoteTerm"
	keyVoteCandidate = "LastVoteCand"

	_ raft.StableStore = (*stableStore)(nil)
)

// openStable opens the vote file in dir, or makes it for a node that is new.
func openStable(fs vfs.FS, dir string, isNew bool, fail func(error) error, watch *stallWatch) (*stableStore, error) {
	s := &stableStore{fail: fail, watch: watch}
	name := fs.PathJoin(dir, stableName)
	if _, err := fs.Stat(name); isNew && errors.Is(err, os.ErrNotExist) {
		b := make([]byte, 2*stableSlot)
		copy(b[stableSlot:], s.encode(1))
		if err := vfs.WriteFile(fs, name, b); err != nil {
			return nil, fmt.Errorf("create vote file: %w", err)
		}
	}
	err := s.load(fs, name)
	if err != nil {
		return nil, err
	}
	if s.file, err = fs.OpenReadWrite(name, vfs.Category); err != nil {
		return nil, fmt.Errorf("open vote file: %w", err)
	}
	return s, nil
}

// load takes over what the file holds. It refuses one that is missing or without a
// valid slot: a node that has forgotten its vote may vote twice.
func (s *stableStore) load(fs vfs.FS, name string) error {
	b, err := vfs.ReadFile(fs, name)
	if errors.Is(err, os.ErrNotExist) {
		return lostVote(name, "is missing")
	}
	if err != nil {
		return fmt.Errorf("read vote file: %w", err)
	}
	valid := false
	for at := 0; at < 2*stableSlot; at += stableSlot {
		if len(b) >= at+stableSlot {
			valid = s.decode(b[at:at+stableSlot]) || valid
		}
	}
	if !valid {
		return lostVote(name, "has no valid slot")
	}
	return nil
}

func lostVote(name, what string) error {
	return core.E(core.Corrupt, "vote file %s %s: this node must not vote; move its data away and let it join again", name, what)
}

func (s *stableStore) encode(seq uint64) []byte {
	be := binary.BigEndian
	b := append(make([]byte, 0, stableHeader+len(s.vote.candidate)+4), stableMagic...)
	b = be.AppendUint64(b, seq)
	b = be.AppendUint64(b, s.term)
	b = be.AppendUint64(b, s.vote.term)
	b = be.AppendUint16(b, uint16(len(s.vote.candidate)))
	b = append(b, s.vote.candidate...)
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decode takes the slot over when it is valid and newer than what s holds.
func (s *stableStore) decode(slot []byte) (valid bool) {
	be := binary.BigEndian
	n := int(be.Uint16(slot[stableHeader-2:]))
	end := stableHeader + n
	if string(slot[:4]) != stableMagic || end+4 > len(slot) ||
		crc32.Checksum(slot[:end], castagnoli) != be.Uint32(slot[end:]) {
		return false
	}
	if seq := be.Uint64(slot[4:]); seq > s.seq {
		s.seq, s.term = seq, be.Uint64(slot[12:])
		s.vote = vote{term: be.Uint64(slot[20:])}
		if n > 0 {
			s.vote.candidate = append([]byte(nil), slot[stableHeader:end]...)
		}
	}
	return true
}

// save makes what s holds durable.
func (s *stableStore) save() error {
	s.watch.enter()
	defer s.watch.leave()
	s.seq++
	_, err := s.file.WriteAt(s.encode(s.seq), int64(s.seq%2)*stableSlot)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return s.fail(fmt.Errorf("write vote file: %w", err))
	}
	return nil
}

// SetUint64 implements raft.StableStore.
func (s *stableStore) SetUint64(key []byte, v uint64) error {
	switch string(key) {
	case keyTerm:
		if s.term == v {
			return nil // raft sets what it has just read when it starts
		}
		s.term = v
		return s.save()
	case keyVoteTerm:
		s.staged = v
		return nil
	}
	return core.E(core.Internal, "raft keeps %q, which we do not know", key)
}

// Set implements raft.StableStore.
func (s *stableStore) Set(key, v []byte) error {
	if string(key) != keyVoteCandidate {
		return core.E(core.Internal, "raft keeps %q, which we do not know", key)
	}
	if stableHeader+len(v)+4 > stableSlot {
		return core.E(core.TooLarge, "candidate address of %d bytes", len(v))
	}
	s.vote = vote{term: s.staged, candidate: append([]byte(nil), v...)}
	return s.save()
}

// GetUint64 implements raft.StableStore; 0 where nothing was set.
func (s *stableStore) GetUint64(key []byte) (uint64, error) {
	switch string(key) {
	case keyTerm:
		return s.term, nil
	case keyVoteTerm:
		return s.vote.term, nil
	}
	return 0, core.E(core.Internal, "raft asks for %q, which we do not know", key)
}

// Get implements raft.StableStore; nil where nothing was set.
func (s *stableStore) Get(key []byte) ([]byte, error) {
	if string(key) == keyVoteCandidate {
		return s.vote.candidate, nil
	}
	return nil, core.E(core.Internal, "raft asks for %q, which we do not know", key)
}

func (s *stableStore) close() error { return s.file.Close() }
