package state

import (
	"polylog/core"
	"polylog/index"
)

// Digest has every replica compare itself with the others: each hands its state as of
// the entry that the command is in to OnDigest's function. Nothing in the state
// changes. Result.Offset is that entry's index.
type Digest struct{}

// Command encodes: nothing.
func (c *Digest) Command() core.Command { return core.Command{Code: CodeDigest} }

func decodeDigest(body []byte) (c Digest, err error) {
	if len(body) > 0 {
		err = core.E(core.Invalid, "%d bytes, want none", len(body))
	}
	return c, err
}

// OnDigest sets what gets the state that a Digest command means, as a snapshot to be
// closed. It is called on the applier's goroutine and must not block.
func (s *State) OnDigest(fn func(*index.Snapshot)) { s.onDigest.Store(&fn) }

func (s *State) digest(c *cursor, body []byte) core.Result {
	if _, err := decodeDigest(body); err != nil {
		return invalid("digest", err)
	}
	s.digesting = true
	return core.Result{Offset: core.Offset(c.index)}
}

// giveDigest hands the state over. The last applied entry is the one of the command: a
// batch of entries ends with it.
func (s *State) giveDigest() error {
	s.digesting = false
	fn := s.onDigest.Load()
	if fn == nil {
		return nil
	}
	sn, err := s.store.Snapshot()
	if err == nil {
		(*fn)(sn)
	}
	return err
}
