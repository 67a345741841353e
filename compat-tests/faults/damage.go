package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"polylog/compat/harness"
)

// A node finds what was damaged behind its back when it reads its log: scrubRate bytes a second of it, and again
// scrubInterval later.
const (
	scrubRate     = 64 << 20
	scrubInterval = 10 * time.Second
)

// repair is how long a node may take to find and mend what was damaged in a log of size bytes: two readings of it, and
// what lies between.
func repair(size int64) time.Duration {
	return 4*scrubInterval + 2*atRate(size, scrubRate)
}

// atRate is how long size bytes take at a rate in bytes a second.
func atRate(size, rate int64) time.Duration {
	return time.Duration(float64(size) / float64(rate) * float64(time.Second))
}

// log is a node's log: its files in their order, and how many bytes they have.
func (n *node) log() (segments []string, size int64, err error) {
	segments, err = filepath.Glob(n.disk.Path("log/*.log"))
	for _, path := range segments {
		if st, err := os.Stat(path); err == nil { // it may have been cut off meanwhile
			size += st.Size()
		}
	}
	slices.Sort(segments)
	return segments, size, err
}

// flip turns one bit of a sealed segment of the log, and waits until the node has mended it from
// another node.
func flip(r *run, n *node, rng *rand.Rand) (func() error, error) {
	segments, size, err := n.log()
	if err != nil || len(segments) < 3 {
		r.history.event("nothing to damage yet", "segments", len(segments))
		return func() error { return nil }, err
	}
	path := segments[rng.IntN(len(segments)-2)] // the newest is not sealed, and another may be about to be
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	at, bit := rng.Int64N(st.Size()*9/10), byte(1)<<rng.IntN(8) // the end may be empty
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	good := b[0]
	_, e := f.WriteAt([]byte{good ^ bit}, at)
	if err = errors.Join(err, e, f.Close()); err != nil {
		return nil, err
	}
	r.history.event("bit flipped", "node", n.id, "file", filepath.Base(path), "at", at, "bit", bit)
	return func() error {
		limit := repair(size)
		for end := time.Now().Add(limit); ; {
			b, err := os.ReadFile(path)
			switch {
			case err == nil && int64(len(b)) > at && b[at] == good:
				return nil
			case time.Now().After(end):
				return errors.Join(fmt.Errorf("byte %d of %s of %s is not mended after %v", at, filepath.Base(path), n.id, limit), err)
			case !harness.Pause(r.ctx, 200*time.Millisecond):
				return r.ctx.Err()
			}
		}
	}, nil
}
