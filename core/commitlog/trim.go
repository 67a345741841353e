package commitlog

import (
	"fmt"
	"slices"

	"polylog/core"
)

// TrimHead removes the sealed segments whose entries are all at or before to, oldest
// first. The active segment stays.
func (l *Log) TrimHead(to core.LogIndex) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	for {
		s := l.takeHead(to)
		if s == nil {
			return nil
		}
		if err := s.close(); err != nil {
			return l.fail(fmt.Errorf("trim %s: %w", s.path, err))
		}
		if err := l.recycle(s); err != nil {
			return l.fail(fmt.Errorf("trim %s: %w", s.path, err))
		}
	}
}

// takeHead takes the oldest segment out of the list when all of it is at or before
// to, else nil.
func (l *Log) takeHead(to core.LogIndex) *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.segs[0]
	if len(l.segs) == 1 || !s.sealed || s.next()-1 > to {
		return nil
	}
	l.segs = slices.Clone(l.segs[1:])
	l.terms.trim(l.segs[0].base)
	return s
}
