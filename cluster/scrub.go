package cluster

import (
	"context"
	"errors"
	"time"

	"polylog/core"
	"polylog/core/commitlog"
)

// scrubber reads the sealed segments of the log now and then, so that what a disk has
// damaged is found while other nodes still have it, and repairs it from them. A segment
// in which a read has failed goes first.
type scrubber struct {
	suspects chan core.LogIndex // entries that cannot be read

	pace  pacer
	first time.Duration // from the start to the first round
}

func (s *scrubber) init(o *Options) {
	s.suspects = make(chan core.LogIndex, 16)
	s.pace.rate = o.ScrubRate
	s.first = min(o.ScrubInterval, 10*time.Minute)
}

// scrubAttempts bounds how often one segment's repair is tried in a round; the next
// round finds it again.
const scrubAttempts = 8

// suspect says that entry i could not be read.
func (n *Node) suspect(i core.LogIndex, err error) {
	if !errors.Is(err, core.Corrupt) {
		return
	}
	select {
	case n.scrub.suspects <- i:
	default: // there are others enough
	}
}

func (n *Node) scrubLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	n.loops.Go(func() { <-n.stop; cancel() })
	var due <-chan time.Time
	if n.o.ScrubInterval > 0 {
		due = time.After(n.scrub.first)
	}
	for {
		select {
		case <-n.stop:
			return
		case i := <-n.scrub.suspects:
			for _, s := range n.log.Segments() {
				if s.Base <= i && i < s.Next {
					n.scrubSegment(ctx, s.Base)
				}
			}
		case <-due:
			n.scrubRound(ctx)
			due = time.After(n.o.ScrubInterval)
		}
	}
}

// scrubRound reads every sealed segment whose entries are all applied: these are the
// same on every node that has them, and change no more.
func (n *Node) scrubRound(ctx context.Context) {
	begin, sound := time.Now(), 0
	for _, s := range n.log.Segments() {
		if !s.Sealed || s.Next-1 > n.machine.Applied() {
			break
		}
		if n.scrubSegment(ctx, s.Base) {
			sound++
		}
		if ctx.Err() != nil {
			return
		}
	}
	n.scrubs.Add(1)
	n.o.Logger.Info("sealed segments of the log read and checked", "sound", sound, "took", time.Since(begin).Round(time.Millisecond))
}

// scrubSegment reads a sealed segment, repairs it where it is damaged, and reports
// whether it is sound in the end.
func (n *Node) scrubSegment(ctx context.Context, base core.LogIndex) bool {
	err := n.log.Scrub(base, func(k int) error {
		n.scrubbed.Add(int64(k))
		return n.scrub.pace.wait(ctx, k)
	})
	d, damaged := errors.AsType[*commitlog.Damage](err)
	switch {
	case err == nil:
		n.setDamaged(base, false)
		return true
	case !damaged:
		if !errors.Is(err, core.NotFound) && ctx.Err() == nil {
			n.o.Logger.Warn("a segment of the log could not be checked", "base", uint64(base), "err", err)
		}
		return false
	}
	n.damages.Add(1)
	n.setDamaged(base, true)
	n.o.Logger.Error("a segment of the log is damaged, fetching it from another node", "err", d.Err)
	attempts := 0
	err = retry(ctx, n.catchUp.first, n.catchUp.limit, func() error {
		attempts++
		peers := n.others(n.servers())
		path, err := n.repairSegment(ctx, d, peers, n.openFiles)
		if err == nil {
			err = n.log.Replace(d.Portion, path)
		}
		if err != nil && (attempts == scrubAttempts || len(peers) == 0) {
			return final{err}
		}
		return err
	})
	switch {
	case err == nil:
		n.repaired.Add(1)
		n.o.Logger.Warn("a damaged segment of the log was replaced by another node's copy", "base", uint64(base))
	case errors.Is(err, core.NotFound): // trimmed meanwhile
	default:
		n.o.Logger.Error("a damaged segment of the log is not repaired; this node cannot be elected", "base", uint64(base), "err", err)
		return false
	}
	n.setDamaged(base, false)
	return err == nil
}

func (n *Node) openFiles(ctx context.Context, id string) (core.Stream, error) {
	return n.OpenStream(ctx, id, filesService)
}

func (n *Node) setDamaged(base core.LogIndex, is bool) {
	if is {
		n.unsound.Store(base, struct{}{})
	} else {
		n.unsound.Delete(base)
	}
}

// electable is nil unless a part of this node's log is damaged, which it could not give to
// others as their leader, or it has to wait: until it knows that it has lost nothing, or where
// others shall be elected first.
func (n *Node) electable() error {
	if !n.recalled.Load() {
		return errNotRecalled
	}
	if n.o.Reluctant() && n.leadership.leaderless(n) < reluctance*n.o.ElectionTimeout {
		return core.E(core.Unavailable, "other nodes are to be elected first")
	}
	var err error
	n.unsound.Range(func(base, _ any) bool {
		err = core.E(core.Corrupt, "the segment of the log that begins with entry %d is damaged: this node does not stand for election", base)
		return false
	})
	return err
}

// final is an error after which retry gives up.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// retry calls do until it succeeds, its error is final or ctx ends; then the last error
// is returned. The pause between calls doubles from first up to limit.
func retry(ctx context.Context, first, limit time.Duration, do func() error) error {
	for pause := first; ; pause = min(2*pause, limit) {
		err := do()
		if f, ok := errors.AsType[final](err); ok {
			return f.error
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}
