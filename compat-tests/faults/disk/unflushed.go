package disk

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
)

// sector is the least that a disk writes whole.
const sector = 512

// unflushed is what a file held before the writes since its last fsync.
type unflushed struct {
	file   *os.File // its own, so that the file can be found whatever it is called now
	pieces []piece  // oldest first
}

// piece is what one write replaced.
type piece struct {
	at   int64
	old  []byte // as far as the file went
	n    int64  // length of the write; 0 where only the size changed
	size int64  // of the file before
}

// before keeps what a write of n bytes at the offset replaces.
func (u *unflushed) before(at, n int64) error {
	st, err := u.file.Stat()
	if err != nil {
		return err
	}
	p := piece{at: at, n: n, size: st.Size()}
	if have := min(n, p.size-at); have > 0 {
		p.old = make([]byte, have)
		if _, err := u.file.ReadAt(p.old, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	u.pieces = append(u.pieces, p)
	return nil
}

// rollback puts the file back to its last fsync. torn leaves some sectors, and perhaps the size,
// as the writes made them.
func (u *unflushed) rollback(rng *rand.Rand, torn bool) error {
	if len(u.pieces) == 0 {
		return nil
	}
	st, err := u.file.Stat()
	if err != nil {
		return err
	}
	kept := map[int64]bool{} // by sector: whether all its writes reached the disk
	lost := func(s int64) bool {
		if !torn {
			return true
		}
		k, ok := kept[s]
		if !ok {
			k = rng.IntN(2) == 0
			kept[s] = k
		}
		return !k
	}
	for _, p := range slices.Backward(u.pieces) {
		if err := p.putBack(u.file, lost); err != nil {
			return err
		}
	}
	size := u.pieces[0].size
	if torn && rng.IntN(2) == 0 {
		size = st.Size()
	}
	u.pieces = nil
	return u.file.Truncate(size)
}

// putBack writes the old bytes of the sectors that are lost; where there were none, zeros.
func (p piece) putBack(f *os.File, lost func(sector int64) bool) error {
	for at := p.at; at < p.at+p.n; {
		end := min((at/sector+1)*sector, p.at+p.n)
		if lost(at / sector) {
			b := make([]byte, end-at)
			if from := at - p.at; from < int64(len(p.old)) {
				copy(b, p.old[from:])
			}
			if _, err := f.WriteAt(b, at); err != nil {
				return err
			}
		}
		at = end
	}
	return nil
}
