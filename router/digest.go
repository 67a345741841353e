package router

import (
	"context"
	"errors"
	"io"
	"sync"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
	"polylog/router/state"
)

// Replicas are compared by a command: each one takes a snapshot of its state where the
// command is in the log, and hashes it beside its work. Whoever has asked for the
// comparison collects the hashes over the service "digest": a request is the entry's
// index as uvarint, the answer the 32 bytes.
const digestService = "digest"

// ReplicaDigest is what a node's state hashes to.
type ReplicaDigest struct {
	Node string
	Sum  [32]byte
	Err  error // why there is none
}

// CompareReplicas has every member hash its state at one log index and returns that and
// the hashes, in the order of Members. Members whose Sums are equal have the same state;
// those with an Err could not say in time. It reads everything that the members hold.
func (r *Router) CompareReplicas(ctx context.Context) (at core.LogIndex, all []ReplicaDigest, err error) {
	c := state.Digest{}
	res, err := r.propose(ctx, c.Command())
	if err != nil {
		return 0, nil, err
	}
	at = core.LogIndex(res.Offset)
	members := r.log.Members()
	all = make([]ReplicaDigest, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() {
			all[i].Node = m.ID
			all[i].Sum, all[i].Err = r.askDigest(ctx, m.ID, at)
		})
	}
	asked.Wait()
	return at, all, nil
}

func (r *Router) askDigest(ctx context.Context, node string, at core.LogIndex) (sum [32]byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := r.log.OpenStream(ctx, node, digestService)
	if err != nil {
		return sum, err
	}
	if err := s.Send(wire.AppendUvarint(nil, uint64(at))); err != nil && !errors.Is(err, core.Closed) {
		return sum, err
	}
	b, err := s.Recv()
	if err == nil && len(b) != len(sum) {
		err = core.E(core.Corrupt, "digest of %d bytes, want %d", len(b), len(sum))
	}
	copy(sum[:], b)
	return sum, err
}

// digests is this replica's last digest.
type digests struct {
	mu      sync.Mutex
	at      core.LogIndex // of the last one that was begun; guarded by mu, as is all below
	busy    bool          // it is not done
	sum     [32]byte
	err     error
	passed  core.LogIndex // the last one that was not made, since another was not done
	changed chan struct{} // closed, and replaced, at every change
	closed  bool

	work sync.WaitGroup
}

func (d *digests) init() { d.changed = make(chan struct{}) }

func (d *digests) wakeLocked() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// take hashes sn, beside the applier. One at a time: what comes meanwhile is passed over.
func (d *digests) take(sn *index.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy || d.closed {
		d.passed = sn.Applied()
		d.wakeLocked()
		sn.Close()
		return
	}
	d.at, d.busy = sn.Applied(), true
	d.work.Go(func() {
		defer sn.Close()
		sum, err := sn.Hash()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.sum, d.err, d.busy = sum, err, false
		d.wakeLocked()
	})
}

// get waits for the digest at an index.
func (d *digests) get(ctx context.Context, at core.LogIndex) ([32]byte, error) {
	for {
		d.mu.Lock()
		sum, err, changed := d.sum, d.err, d.changed
		done, missed := d.at == at && !d.busy, d.at > at || d.passed >= at || d.closed
		d.mu.Unlock()
		switch {
		case done:
			return sum, err
		case missed:
			return sum, core.E(core.Unavailable, "this node made no digest at entry %d: another comparison was under way", at)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return sum, core.E(core.Unavailable, "no digest at entry %d yet: %v", at, context.Cause(ctx))
		}
	}
}

// close ends the work and whoever waits for it.
func (d *digests) close() {
	d.mu.Lock()
	d.closed = true
	d.wakeLocked()
	d.mu.Unlock()
	d.work.Wait()
}

func (r *Router) serveDigest(_ string, s core.Stream) error {
	b, err := s.Recv()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	read := wire.NewReader(b)
	at := core.LogIndex(read.Uvarint())
	if err := read.Close(); err != nil {
		return core.E(core.Invalid, "digest: %v", err)
	}
	sum, err := r.digests.get(s.Context(), at)
	if err != nil {
		return err
	}
	return s.Send(sum[:])
}
