package index

import "polylog/core"

// SaveTo writes the base, which is the state of the last checkpoint, to the directory
// dir of the store's file system, as another store that Open takes; dir must not exist.
// Files that do not change are linked instead of copied where that is possible. It
// returns the index of the last entry that the copy contains. Checkpoints wait
// meanwhile; readers and Update do not.
//
// The error is of kind Unavailable after a checkpoint that failed half-way: then nobody
// knows whether the base has it.
func (s *Store) SaveTo(dir string) (core.LogIndex, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	closed := s.closed
	s.mu.RUnlock()
	switch {
	case closed:
		return 0, errClosed
	case s.unflushed:
		return 0, core.E(core.Unavailable, "save the index: its last checkpoint failed")
	}
	if err := s.db.Checkpoint(dir); err != nil {
		return 0, baseError("save the index to "+dir, err)
	}
	return s.Durable(), nil
}
