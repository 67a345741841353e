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

// repair is how long a node may take to find and mend what was damaged behind its back: some
// rounds of its scrub, which run every ten seconds here.
const repair = 40 * time.Second

// flip turns one bit of a sealed segment of the log, and waits until the node has mended it from
// another node.
func flip(r *run, n *node, rng *rand.Rand) (func() error, error) {
	segments, err := filepath.Glob(n.disk.Path("log/*.log"))
	if err != nil || len(segments) < 3 {
		r.history.event("nothing to damage yet", "segments", len(segments))
		return func() error { return nil }, err
	}
	slices.Sort(segments)
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
		for end := time.Now().Add(repair); ; {
			b, err := os.ReadFile(path)
			switch {
			case err == nil && int64(len(b)) > at && b[at] == good:
				return nil
			case time.Now().After(end):
				return fmt.Errorf("byte %d of %s of %s is not mended after %v: %w", at, filepath.Base(path), n.id, repair, err)
			case !harness.Pause(r.ctx, 200*time.Millisecond):
				return r.ctx.Err()
			}
		}
	}, nil
}
