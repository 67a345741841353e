package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"polylog/core"
)

// A node that does not lead asks the leader how far its state is, over one stream: an
// empty message asks, 8 bytes, big-endian, answer with an index. The leader gives it
// after it has confirmed that it leads, so its state then contains everything that was
// acknowledged before it was asked; a local state that has come to the same index does
// too.

const (
	readService = "read"
	// readPatience bounds ReadIndex on a node that does not lead.
	readPatience = 10 * time.Second
)

// remoteReader asks for everybody who waits at the time.
type remoteReader struct{ requests chan chan<- remoteIndex }

type remoteIndex struct {
	index core.LogIndex
	err   error
}

func (r *remoteReader) init() { r.requests = make(chan chan<- remoteIndex) }

// readThere is ReadIndex for a node that does not lead.
func (n *Node) readThere(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readPatience, core.E(core.Unavailable, "no leader has confirmed it within %v", readPatience))
	defer cancel()
	for failures := 1; ; failures++ {
		_, changed := n.leadership.state()
		err := n.readOnce(ctx)
		if !isRefusal(err) || core.KindOf(err) == core.Closed || n.failure.failed() != nil {
			return err
		}
		pause := time.NewTimer(min(minForwardPause<<min(failures-1, 10), maxForwardPause))
		select {
		case <-changed:
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() != nil {
			return core.E(core.Unavailable, "read not confirmed: %v (%v)", context.Cause(ctx), err)
		}
	}
}

// readOnce asks whoever leads now.
func (n *Node) readOnce(ctx context.Context) error {
	if err := n.readHere(ctx); core.KindOf(err) != core.NotLeader {
		return err
	}
	answer := make(chan remoteIndex, 1)
	select {
	case n.remote.requests <- answer:
	case <-n.stop:
		return core.E(core.Closed, "this node is shutting down")
	case <-ctx.Done():
		return core.E(core.Unavailable, "the leader was not asked: %v", context.Cause(ctx))
	}
	select {
	case a := <-answer:
		if a.err != nil {
			return a.err
		}
		return n.awaitApplied(ctx, a.index)
	case <-ctx.Done():
		return core.E(core.Unavailable, "the leader has not answered: %v", context.Cause(ctx))
	}
}

// remoteReadLoop has one round after the other: those who come during one wait for the
// next, since the leader may have been asked before they came.
func (n *Node) remoteReadLoop() {
	var asked asking
	defer asked.end()
	for {
		var round []chan<- remoteIndex
		select {
		case <-n.stop:
			return
		case r := <-n.remote.requests:
			round = append(round, r)
		}
		for more := true; more; {
			select {
			case r := <-n.remote.requests:
				round = append(round, r)
			default:
				more = false
			}
		}
		var answer remoteIndex
		answer.index, answer.err = n.askLeader(&asked)
		for _, r := range round {
			r <- answer
		}
	}
}

// asking is the stream to the leader that is asked.
type asking struct {
	leader string
	stream core.Stream // nil: none
	cancel context.CancelFunc
}

func (a *asking) end() {
	if a.cancel != nil {
		a.cancel()
	}
	*a = asking{}
}

// askLeader asks once. It gives up when the leader changes, or after as long as a leader
// without a majority may take to notice.
func (n *Node) askLeader(a *asking) (core.LogIndex, error) {
	_, changed := n.leadership.state()
	leader, known := n.Leader()
	if !known || leader.ID == n.o.NodeID {
		return 0, core.E(core.Unavailable, "no leader is known")
	}
	if a.stream != nil && a.leader != leader.ID {
		a.end()
	}
	index, err := n.askOnStream(a, leader.ID, changed)
	if err != nil {
		a.end()
		return 0, core.E(core.Unavailable, "leader %q has not confirmed: %v", leader.ID, err)
	}
	return index, nil
}

func (n *Node) askOnStream(a *asking, leader string, changed <-chan struct{}) (core.LogIndex, error) {
	var ctx context.Context
	if a.stream == nil {
		a.leader = leader
		ctx, a.cancel = context.WithCancel(context.Background())
	}
	defer n.giveUp(a.cancel, changed)()
	if a.stream == nil {
		var err error
		if a.stream, err = n.OpenStream(ctx, leader, readService); err != nil {
			return 0, err
		}
	}
	if err := a.stream.Send(nil); err != nil {
		return 0, err
	}
	b, err := a.stream.Recv()
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, core.E(core.Invalid, "answer of %d bytes, want 8", len(b))
	}
	return core.LogIndex(binary.BigEndian.Uint64(b)), nil
}

// giveUp calls cancel when the leader has changed or does not answer, until stop is
// called.
func (n *Node) giveUp(cancel func(), changed <-chan struct{}) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(2 * n.o.ElectionTimeout)
		defer timer.Stop()
		select {
		case <-done:
			return
		case <-changed:
		case <-timer.C:
		case <-n.stop:
		}
		cancel()
	}()
	return func() { close(done); <-ended }
}

// serveReads answers another node's questions.
func (n *Node) serveReads(_ string, s core.Stream) error {
	for {
		if _, err := s.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := n.readHere(s.Context()); err != nil {
			return err
		}
		if err := s.Send(binary.BigEndian.AppendUint64(nil, uint64(n.machine.Applied()))); err != nil {
			return err
		}
	}
}
