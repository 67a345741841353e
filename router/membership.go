package router

import (
	"context"
	"net"
	"strconv"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// Who takes part is raft's configuration; what the nodes are is the registry's. The
// leader changes both, in an order that a crash in between leaves correct: the registry
// binds an id to an instance before raft knows the node, and forgets it after raft has.

// Candidate is a node that wants to take part in the cluster, or to go on doing so.
type Candidate struct {
	state.Member
	ClusterID string    // empty: it has a new data directory
	New       bool      // it has no log: it never took part with its data directory
	Clock     time.Time // its clock, when it asked
}

// MaxClockOffset is how far a node's clock may be from the leader's. The leader's clock
// is the time of everything in the log: a wrong one expires records too early.
const MaxClockOffset = time.Minute

// Admit says whether a node may take part. It is nil for a member and for one that
// could join now. Only the leader can tell. Error kinds: Conflict (of another cluster, its
// id belongs to other data, it was removed), Unsupported (its version), Invalid (its clock,
// its address).
func (r *Router) Admit(ctx context.Context, c *Candidate) error {
	if !r.log.IsLeader() {
		return core.E(core.NotLeader, "this node is not the leader")
	}
	if err := r.confirmLeading(ctx); err != nil {
		return err
	}
	return r.judge(c)
}

// ErrNoLeader is for whoever asks for what only a leader can do.
var ErrNoLeader = core.E(core.Unavailable, "the cluster has no leader: most of its voters must run and reach each other")

// confirmTimeout bounds how long a leader that has lost its voters may believe in itself.
const confirmTimeout = 2 * time.Second

// confirmLeading is nil when a majority still follows the leader.
func (r *Router) confirmLeading(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	err := r.log.ReadIndex(ctx)
	if k := core.KindOf(err); k == core.Unavailable || k == core.NotLeader {
		return ErrNoLeader
	}
	return err
}

func (r *Router) judge(c *Candidate) error {
	if c.ClusterID != "" && c.ClusterID != r.log.ClusterID() {
		return core.E(core.Conflict, "node %s has the data of another cluster, %s; this one is %s", c.ID, c.ClusterID, r.log.ClusterID())
	}
	if level := r.state.Level(); c.MaxLevel < level {
		return core.E(core.Unsupported, "node %s runs polylog %s, which knows feature level %d; the cluster is at %d: start a newer version", c.ID, c.Version, c.MaxLevel, level)
	}
	if off := c.Clock.Sub(r.clock()); off.Abs() > MaxClockOffset {
		return core.E(core.Invalid, "the clock of node %s is %v off the leader's, more than %v: set it right first", c.ID, off.Abs().Round(time.Second), MaxClockOffset)
	}
	if err := checkNodeAddr(c.Addr); err != nil {
		return err
	}
	registered, known := r.state.Members()[c.ID]
	is, isMember := r.memberByID(c.ID)
	switch {
	case isMember && (known && registered.Instance != c.Instance || c.New && (is.Voter || !known)):
		return core.E(core.Conflict, "node %s is a member of the cluster with other data: another node has this id, or the node's data was lost; remove it first (polylog cluster remove %s), or take another node-id", c.ID, c.ID)
	case isMember:
		return nil
	}
	for _, m := range r.log.Members() {
		if core.BrokerID(m.ID) == core.BrokerID(c.ID) {
			return core.E(core.Conflict, "node ids %s and %s mean the same number to Kafka clients, %d: take another node-id", m.ID, c.ID, core.BrokerID(c.ID))
		}
	}
	return nil
}

// IsMember reports whether the leader's newest configuration has the node.
func (r *Router) IsMember(id string) bool {
	_, ok := r.memberByID(id)
	return ok
}

func (r *Router) memberByID(id string) (core.Member, bool) {
	for _, m := range r.log.Members() {
		if m.ID == id {
			return m, true
		}
	}
	return core.Member{}, false
}

// checkNodeAddr is nil for an address that another node can be told to dial.
func checkNodeAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	n, perr := strconv.ParseUint(port, 10, 16)
	if addr == "" {
		return core.E(core.Invalid, "the node says no address: set node-listen, or node-advertise, to one that other nodes can connect to")
	}
	if ip := net.ParseIP(host); err != nil || perr != nil || n == 0 || host == "" || ip != nil && ip.IsUnspecified() {
		return core.E(core.Invalid, "node address %q is not host:port that other nodes can connect to: set node-advertise", addr)
	}
	return nil
}

// AddMember has a node take part that Admit admits: it gets the log, and a vote when it has
// caught up. For a member it takes over the address. It may be repeated.
func (r *Router) AddMember(ctx context.Context, c *Candidate) error {
	r.membership.Lock()
	defer r.membership.Unlock()
	if err := r.Admit(ctx, c); err != nil {
		return err
	}
	was, isMember := r.memberByID(c.ID)
	if isMember && was.Addr == c.Addr {
		return nil
	}
	if registered, known := r.state.Members()[c.ID]; known && registered.Instance != c.Instance { // left by a crash
		if err := r.forget(ctx, c.ID); err != nil {
			return err
		}
	}
	if !isMember {
		cmd := state.Announce{Member: c.Member}
		if _, err := r.propose(ctx, cmd.Command()); err != nil {
			return err
		}
	}
	if err := r.log.AddMember(ctx, c.ID, c.Addr); err != nil {
		return err
	}
	r.logger.Info("member added", "node", c.ID, "addr", c.Addr, "new", !isMember)
	return nil
}

// RemoveMember takes a node out of the cluster for good: with its data directory it never
// comes back. Error kinds: NotFound, Conflict (it is the only voter), NotLeader.
func (r *Router) RemoveMember(ctx context.Context, id string) error {
	r.membership.Lock()
	defer r.membership.Unlock()
	if err := r.confirmLeading(ctx); err != nil {
		return err
	}
	m, ok := r.memberByID(id)
	if !ok {
		return core.E(core.NotFound, "no node %s in this cluster", id)
	}
	voters := 0
	for _, o := range r.log.Members() {
		if o.Voter {
			voters++
		}
	}
	if m.Voter && voters == 1 {
		return core.E(core.Conflict, "node %s is the only voter of the cluster", id)
	}
	if err := r.log.RemoveMember(ctx, id); err != nil {
		return err
	}
	r.logger.Info("member removed", "node", id, "addr", m.Addr)
	if id == r.log.ID() {
		return nil // the next leader's membershipLoop forgets us
	}
	return r.forget(ctx, id)
}

func (r *Router) forget(ctx context.Context, id string) error {
	cmd := state.ForgetMember{ID: id}
	if _, err := r.propose(ctx, cmd.Command()); err != nil && core.KindOf(err) != core.NotFound {
		return err
	}
	return nil
}

const membershipInterval = time.Second

// membershipLoop has the leader finish what an earlier one has begun, and raise the
// feature level.
func (r *Router) membershipLoop(ctx context.Context) {
	tick := time.NewTicker(membershipInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !r.log.IsLeader() {
			continue
		}
		if err := r.tidyMembers(ctx); err != nil && ctx.Err() == nil {
			r.logger.Debug("tidying up the members is tried again", "error", err)
		}
	}
}

// tidyMembers forgets who is registered and no member, and raises the level.
func (r *Router) tidyMembers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*membershipInterval)
	defer cancel()
	if err := r.forgetRemoved(ctx); err != nil {
		return err
	}
	return r.raiseLevel(ctx)
}

func (r *Router) forgetRemoved(ctx context.Context) error {
	r.membership.Lock()
	defer r.membership.Unlock()
	for id := range r.state.Members() {
		if !r.IsMember(id) {
			if err := r.forget(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// raiseLevel raises the feature level to the highest that all members know.
func (r *Router) raiseLevel(ctx context.Context) error {
	registry, level := r.state.Members(), state.MaxLevel
	for _, m := range r.log.Members() {
		is, ok := registry[m.ID]
		if !ok {
			return nil // it has not said yet
		}
		level = min(level, is.MaxLevel)
	}
	if level <= r.state.Level() {
		return nil
	}
	cmd := state.SetFeatureLevel{Level: level}
	if _, err := r.propose(ctx, cmd.Command()); err != nil {
		return err
	}
	r.logger.Info("feature level raised", "level", level)
	return nil
}
