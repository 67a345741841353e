package core

import "sync/atomic"

// Sequence is commands of which each is done after those that were proposed before it, or not at
// all: when one was refused, or may not be done, none is done any more that was proposed after it.
// The zero value is one that goes on.
type Sequence struct{ ended atomic.Bool }

// End refuses every command that has not been sent to a leader's log yet. It may be called again,
// and for nil.
func (s *Sequence) End() {
	if s != nil {
		s.ended.Store(true)
	}
}

// Ended reports whether commands are refused. It may be called for nil, which goes on for ever.
func (s *Sequence) Ended() bool { return s != nil && s.ended.Load() }
