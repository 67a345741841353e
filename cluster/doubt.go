package cluster

import (
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"
)

// A follower of raft's believes in its leader until a time-out of its own that it starts
// anew whenever it ends early: 2 to 6 seconds after the leader's last sign of life with an
// ElectionTimeout of 2. As long as one of two does, it refuses the other's pre-vote, and who
// was refused waits for another time-out: after a crash of the leader the election came with
// the later of the two. So a follower looks by itself, and forgets a leader that is silent for
//
//   - ElectionTimeout and something by chance, so that two do not stand at once;
//   - ElectionTimeout, when another node asks for a pre-vote: that one misses it too.
//
// Never sooner than ElectionTimeout, on which reads build (transport.go).

// doubtLoop has raft forget a leader that was silent for long enough.
func (n *Node) doubtLoop() {
	tick := time.NewTicker(n.o.ElectionTimeout / 20)
	defer tick.Stop()
	patience := n.patience()
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
		}
		switch silent := n.silence(); {
		case silent < n.missing():
			patience = n.patience()
		case silent >= patience:
			n.doubt()
			patience = silent + n.patience() // where raft saw it otherwise
		}
	}
}

// patience is how long to believe in a silent leader: a quarter to three quarters longer than
// ElectionTimeout. Signs of life come every tenth, so followers differ by more than that.
func (n *Node) patience() time.Duration {
	return n.missing()*5/4 + rand.N(n.missing()/2)
}

// missing is for how long a leader must be silent to be missed: ElectionTimeout, as raft has it.
func (n *Node) missing() time.Duration { return n.raft.ReloadableConfig().ElectionTimeout }

// silence is how long the leader that this node follows was not heard of; 0 where it follows none.
func (n *Node) silence() time.Duration {
	if _, follows := n.Leader(); !follows || n.raft.State() != raft.Follower {
		return 0
	}
	return time.Since(n.raft.LastContact())
}

// doubt has raft look at its time-out now, as it does when that is made shorter.
func (n *Node) doubt() {
	c := n.raft.ReloadableConfig()
	for _, timeout := range []time.Duration{c.ElectionTimeout, c.ElectionTimeout - 1} {
		c.HeartbeatTimeout = timeout
		if err := n.raft.ReloadConfig(c); err != nil {
			n.o.Logger.Warn("time-out not reloaded", "err", err)
		}
	}
}

// doubtTimeout bounds how long a pre-vote waits until raft has forgotten the leader.
const doubtTimeout = 100 * time.Millisecond

// shareDoubt is told that another node asks for a pre-vote, before raft is. It returns when
// raft has forgotten a leader that this node misses too, and reports whether this node stands
// for election itself.
func (n *Node) shareDoubt() (stands bool) {
	if n.silence() < n.missing() {
		return n.raft.State() == raft.Candidate
	}
	changed := n.LeaderChanged()
	n.doubt()
	limit := time.NewTimer(doubtTimeout)
	defer limit.Stop()
	for n.silence() > 0 {
		select {
		case <-changed:
			changed = n.LeaderChanged()
		case <-limit.C:
			return false
		case <-n.stop:
			return false
		}
	}
	return true // raft's next step
}

// Two that miss the leader stand at about the same time, as one takes the other along. Each
// would win the other's pre-vote, give itself its vote and lose an election time-out. So of two
// that stand the one with the greater id has the other wait for its answer, in which time it
// is elected, if its log allows.

// letRivalWait hands a rival's call on once there is another leader, or time enough for one to come.
func (n *Node) letRivalWait(rpc raft.RPC) {
	limit := time.NewTimer(n.missing() / 8)
	defer limit.Stop()
	select {
	case <-n.LeaderChanged():
	case <-limit.C:
	case <-n.stop:
	}
	n.handOn(rpc)
}
