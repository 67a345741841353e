package routertest

import (
	"io"

	"polylog/core"
)

// Lend implements router.Log: what is "on the disk" is lent.
func (l *Log) Lend(i core.LogIndex, pos, n uint32, front []byte) (core.Extent, core.Term, error) {
	if !l.isCold() {
		return nil, 0, nil
	}
	data, term, err := l.ReadAt(i, pos, n, nil)
	if err != nil {
		return nil, 0, err
	}
	copy(front, data)
	l.lent.Add(1)
	return &extent{log: l, data: data}, term, nil
}

func (l *Log) isCold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cold
}

// Lent is the number of extents that were not released yet.
func (l *Log) Lent() int { return int(l.lent.Load()) }

// extent is a core.Extent of an entry in memory.
type extent struct {
	log  *Log
	data []byte // nil when released
}

// SendTo implements core.Extent.
func (e *extent) SendTo(w io.Writer, from, n int64) (int64, error) {
	k, err := w.Write(e.data[from:][:n])
	return int64(k), err
}

// Release implements core.Extent.
func (e *extent) Release() {
	if e.data == nil {
		panic("extent released twice")
	}
	e.data = nil
	e.log.lent.Add(-1)
}
