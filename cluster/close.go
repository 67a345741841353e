package cluster

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"
)

// Close shuts the node down: it takes no more proposals, answers those that it has,
// hands leadership to another voter, writes a checkpoint so that the next start has
// nothing to replay, and stops raft and the stores. It may be called twice; the
// second call waits for the first. A disk that hangs can hold it up for as long as
// the stall limit.
func (n *Node) Close() error {
	n.closeOnce.Do(func() {
		n.forwarder.drain()
		n.proposer.drain()
		if n.failure.failed() == nil {
			n.handOver()
			n.checkpoint()
		}
		close(n.stop)
		n.loops.Wait()
		err := n.network.Close() // waits for the handlers of streams, which may use raft
		n.dropExports(true)
		err = errors.Join(err, n.raft.Shutdown().Error())
		n.calls.Wait()
		n.closeErr = errors.Join(err, n.closeStores())
	})
	return n.closeErr
}

// HandOver makes another voter leader, if this node leads, and returns when that one is
// known here, or after an election time-out. It is only for a node that is about to be
// closed (guard 6): one that still has clients can then tell them whom to turn to. Close
// does it in any case.
func (n *Node) HandOver(ctx context.Context) {
	if n.failure.failed() != nil || !n.handOver() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.o.ElectionTimeout)
	defer cancel()
	for {
		changed := n.LeaderChanged()
		if l, ok := n.Leader(); ok && l.ID != n.o.NodeID {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// handOver makes another voter leader, so that the others need not wait for their
// time-outs. It is used nowhere else (guard 6): a transfer that fails can leave raft
// refusing every proposal, which does not matter to a node that is going away.
func (n *Node) handOver() bool {
	if !n.IsLeader() || n.isLoneVoter() {
		return false
	}
	transfer := n.raft.LeadershipTransfer
	if heir := n.heir(); heir.ID != "" {
		transfer = func() raft.Future { return n.raft.LeadershipTransferToServer(heir.ID, heir.Address) }
	}
	if err := transfer().Error(); err != nil {
		n.o.Logger.Info("leadership not handed over", "err", err)
		return false
	}
	return true
}

// heir is the voter that Options.Heir allows and that has the most of the log; none where it
// allows all, which leaves it to raft.
func (n *Node) heir() (best raft.Server) {
	all, most := true, uint64(0)
	for _, s := range n.servers() {
		switch {
		case string(s.ID) == n.o.NodeID || s.Suffrage != raft.Voter:
		case !n.o.Heir(string(s.ID)):
			all = false
		default:
			if k := n.transport.contacts.of(s.ID); best.ID == "" || k.matched > most {
				best, most = s, k.matched
			}
		}
	}
	if all {
		return raft.Server{}
	}
	return best
}

// closeStores closes what openStores opened, as far as it came.
func (n *Node) closeStores() error {
	var errs []error
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	if n.stable != nil {
		errs = append(errs, n.stable.close())
	}
	if n.o.Home == nil {
		errs = append(errs, n.home.Close())
	}
	return errors.Join(errs...)
}
