package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"polylog/cluster/peer"
	"polylog/cmd/polylog/config"
	"polylog/core"
	"polylog/router"
	"polylog/router/admin"
	"polylog/router/state"
)

// How a node becomes one of a cluster. A new data directory belongs to nobody. With --join
// its node first asks the cluster whether it may take part, and only then writes down whose
// the directory is, listens, and asks to be added: a node that is refused leaves nothing
// behind, and one that has lost its data never answers for the one it was.

// candidate is this node as it wants to take part.
func (b *broker) candidate() router.Candidate {
	return router.Candidate{
		Member: state.Member{
			ID: b.home.NodeID(), Instance: b.home.Instance(), Addr: b.nodeAddr(), Version: version, MaxLevel: state.MaxLevel,
		},
		ClusterID: b.home.ClusterID(), New: b.isNew(), Clock: b.now(),
	}
}

// isNew reports whether the node brings no data: not any more once it has got its first
// entry, though the data directory was empty when the process started.
func (b *broker) isNew() bool {
	n := b.node.Load()
	if n == nil {
		return b.fresh
	}
	s := n.Stats()
	return s.Last == 0 && s.Snapshot == 0
}

// nodeAddr is the address that other nodes dial; empty where there is none.
func (b *broker) nodeAddr() string {
	if b.config.NodeAdvertise != "" || b.nodeListener == nil {
		return b.config.NodeAdvertise
	}
	return b.nodeListener.Addr().String()
}

// settle gives a new data directory its cluster, and refuses to go on with the data of
// another one than that which it is to join.
func (b *broker) settle(ctx context.Context) error {
	var err error
	if b.fresh, err = b.home.IsEmpty(); err != nil {
		return err
	}
	if len(b.config.Join) == 0 {
		if b.home.IsNew() {
			return b.home.Found("")
		}
		return nil
	}
	client, closeClient := b.guest()
	defer closeClient()
	if !b.fresh {
		return b.checkForeign(ctx, client)
	}
	ctx, cancel := context.WithTimeout(ctx, b.config.JoinTimeout)
	defer cancel()
	a, err := client.Admit(ctx, b.candidate, b.logRetry("asking to join is tried again"))
	if err != nil || !b.home.IsNew() {
		return err
	}
	b.log.Info("joining", "cluster", a.ClusterID, "node", b.home.NodeID(), "leader", a.Leader)
	return b.home.Join(a.ClusterID)
}

// foreignTimeout bounds how long a start waits for an answer that it does not need.
const foreignTimeout = 2 * time.Second

// checkForeign refuses the data of another cluster than that of the nodes to join. Where
// nobody answers there is nothing to compare, and where one of them is of the node's own
// cluster it is another that went astray: the node goes on with the cluster that it has.
func (b *broker) checkForeign(ctx context.Context, client *admin.Client) error {
	ctx, cancel := context.WithTimeout(ctx, foreignTimeout)
	defer cancel()
	addrs := b.config.Others()
	others := make([]string, len(addrs)) // their clusters, as far as they say
	var asked sync.WaitGroup
	for i, addr := range addrs {
		asked.Go(func() {
			one := admin.Client{Addrs: []string{addr}, Open: client.Open}
			if info, err := one.Info(ctx); err == nil {
				others[i] = info.ClusterID
				if info.ClusterID == b.home.ClusterID() {
					cancel()
				}
			}
		})
	}
	asked.Wait()
	if slices.Contains(others, b.home.ClusterID()) {
		return nil
	}
	for i, other := range others {
		if other != "" {
			return core.E(core.Conflict, "data directory %s belongs to cluster %s, but the node at %s to cluster %s",
				b.config.DataDir, b.home.ClusterID(), addrs[i], other)
		}
	}
	return nil
}

// join has the cluster add this node, where it never took part: an earlier start with this
// data directory may have been refused, or have ended, before that.
func (b *broker) join(ctx context.Context) error {
	if !b.home.Joined() || !b.isNew() {
		return nil
	}
	if len(b.config.Join) == 0 {
		return core.E(core.Conflict, "data directory %s was made to join a cluster and has not yet: start with --join", b.config.DataDir)
	}
	client, closeClient := b.guest()
	defer closeClient()
	ctx, cancel := context.WithTimeout(ctx, b.config.JoinTimeout)
	defer cancel()
	_, err := client.Join(ctx, b.candidate, b.logRetry("joining is tried again"))
	return err
}

func (b *broker) logRetry(msg string) func(error) {
	said := ""
	return func(err error) {
		if err.Error() != said { // each reason once
			said = err.Error()
			b.log.Info(msg, "err", err) //nolint:sloglint // a constant of the caller's
		}
	}
}

// guest is a client of the nodes to join, which belongs to no cluster.
func (b *broker) guest() (c *admin.Client, closeClient func()) {
	n := peer.New(peer.Options{NodeID: b.home.NodeID(), TLS: b.tls, Logger: b.log})
	c = &admin.Client{Addrs: b.config.Others(), Open: func(ctx context.Context, addr string) (core.Stream, error) {
		return n.Open(ctx, "", addr, admin.Service)
	}}
	return c, func() { _ = n.Close() }
}

// servesKafka reports whether the member of that id has a Kafka listener, or has not said.
func (b *broker) servesKafka(id string) bool {
	m, known := b.state.Members()[id]
	return !known || m.Endpoints[kafkaEndpoint] != ""
}

// reluctant is a broker that cannot serve Kafka clients, whom the leader serves, where another
// member can.
func (b *broker) reluctant() bool {
	if b.config.KafkaListen != config.Off {
		return false
	}
	away := b.state.Sightings()
	for id, m := range b.state.Members() {
		if id != b.home.NodeID() && m.Endpoints[kafkaEndpoint] != "" && !away[id].Away {
			return true
		}
	}
	return false
}

// kafkaEndpoint is the name of the Kafka listener among a member's endpoints.
const kafkaEndpoint = "kafka"

// serveAdmin answers the other nodes and polylog cluster.
func (b *broker) serveAdmin(context.Context) error {
	s := admin.Serve(admin.Options{
		Router: b.router, Network: b.node.Load(), Logger: b.log,
		Status: b.status, Self: b.candidate,
		Stop:     b.askToStop,
		Expelled: b.fail,
	})
	b.admin = s
	b.laterClose(func() error { s.Close(); return nil })
	return nil
}

// checkIn asks the other members, if any can be reached, whether this node may go on.
func (b *broker) checkIn(ctx context.Context) error { return b.admin.Check(ctx) }

// announceTimeout bounds how long a start waits until all nodes know this one's addresses.
const announceTimeout = 2 * time.Second

// announce tells the cluster what this node is and where its clients reach it. Clients that
// are here already need none of that, so a cluster without leader does not hold it up.
func (b *broker) announce(ctx context.Context) error {
	m := b.candidate().Member
	m.Endpoints = b.advertised()
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	err := b.router.Announce(ctx, m)
	if core.KindOf(err) == core.Unavailable {
		b.log.Info("this node's addresses are announced later", "err", err)
		return nil
	}
	return err
}

// status is what this node says of itself.
func (b *broker) status() admin.Status {
	n := b.node.Load()
	s := n.Stats()
	st := admin.Status{
		ID: b.home.NodeID(), Instance: b.home.Instance(), Version: version,
		Term: uint64(s.Term), Committed: uint64(s.Committed), Applied: uint64(s.Passed), Last: uint64(s.Last),
		LogBytes: s.LogBytes, DiskFree: -1, Clock: b.now(), NotReady: b.notReady(),
		Stopping: *b.phase.Load() == stopping, SegmentBytes: int64(b.config.SegmentSize),
	}
	if l, ok := n.Leader(); ok {
		st.Leader = l.ID
	}
	if m, ok := n.Mistaken(); ok {
		st.Mistaken = fmt.Sprintf("node %s of cluster %s", m.Node, m.Cluster)
	}
	if u, err := b.fs.GetDiskUsage(b.config.DataDir); err == nil {
		st.DiskFree = int64(u.AvailBytes)
	}
	return st
}

// advertised are the addresses that clients elsewhere should use, by listener. A listener
// on all addresses of a machine is reached by the one that other nodes know.
func (b *broker) advertised() map[string]string {
	all := map[string]string{}
	nodeHost, _, _ := net.SplitHostPort(b.nodeAddr())
	for _, e := range b.endpoints {
		host, port, err := net.SplitHostPort(e.addr)
		switch ip := net.ParseIP(host); {
		case e.name == "node" || err != nil:
		case e.name == "kafka" && b.config.KafkaAdvertise != "":
			all[e.name] = b.config.KafkaAdvertise
		case ip != nil && ip.IsUnspecified():
			if nodeHost != "" {
				all[e.name] = net.JoinHostPort(nodeHost, port)
			}
		default:
			all[e.name] = e.addr
		}
	}
	return all
}
