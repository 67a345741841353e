package kafka

import (
	"net"
	"strconv"

	"polylog/core"
)

// endpointName is the key of our address in core.Member.Endpoints.
const endpointName = "kafka"

// node is a member of the cluster as Kafka's clients see it.
type node struct {
	id   int32
	host string
	port int32
	rack *string
}

// cluster is one consistent look at who is who.
type cluster struct {
	id     string
	self   int32
	nodes  []node
	voters []int32 // every partition's replicas
	inSync []int32 // those of them that the leader reaches
	away   []int32 // the others
	leader int32   // of every partition
	epoch  int32   // the leader's
	known  bool    // leader is the cluster's, and not just somebody to ask
}

// cluster looks at the members for the client of this session. Where no leader is known
// for the moment, this node is named rather than none: clients give up on a partition
// without leader, but retry on one that answers NOT_LEADER_OR_FOLLOWER.
func (s *session) cluster() cluster {
	info := s.srv.router.Cluster()
	c := cluster{id: info.ClusterID, self: core.BrokerID(info.NodeID), epoch: int32(info.Term)}
	c.leader = c.self
	for _, m := range info.Members {
		n, ok := s.node(m, info.NodeID)
		if !ok {
			continue
		}
		if !m.Away {
			c.nodes = append(c.nodes, n)
		}
		switch {
		case m.Voter && m.Away:
			c.voters, c.away = append(c.voters, n.id), append(c.away, n.id)
		case m.Voter:
			c.voters, c.inSync = append(c.voters, n.id), append(c.inSync, n.id)
		}
		if info.HasLeader && m.ID == info.Leader.ID {
			c.leader, c.known = n.id, true
		}
	}
	if len(c.nodes) == 0 { // before the first configuration
		n, _ := s.node(core.Member{ID: info.NodeID}, info.NodeID)
		c.nodes = []node{n}
	}
	if len(c.inSync) == 0 {
		c.inSync = []int32{c.nodes[0].id}
	}
	if len(c.voters) == 0 {
		c.voters = c.inSync
	}
	return c
}

// leaderNode is the leader's address; false while no leader is known.
func (c *cluster) leaderNode() (node, bool) {
	for _, n := range c.nodes {
		if c.known && n.id == c.leader {
			return n, true
		}
	}
	return node{}, false
}

// otherLeader is leaderNode where that is another node than this one: the hint of KIP-951
// for a client that came to the wrong one. A node that was elected and is not ready yet
// has none to give.
func (c *cluster) otherLeader() (node, bool) {
	if c.leader == c.self {
		return node{}, false
	}
	return c.leaderNode()
}

// node is m with the address that this session's client should use.
func (s *session) node(m core.Member, self string) (node, bool) {
	addr := m.Endpoints[endpointName]
	if m.ID == self {
		addr = s.advertised()
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return node{}, false
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return node{}, false
	}
	n := node{id: core.BrokerID(m.ID), host: host, port: int32(p)}
	if rack := m.Endpoints["rack"]; rack != "" {
		n.rack = &rack
	} else if m.ID == self && s.srv.opts.Rack != "" {
		n.rack = &s.srv.opts.Rack
	}
	return n, true
}

// advertised is our own address: what the configuration says, else the address that
// this client reached us by, which is right for the network that it is in.
func (s *session) advertised() string {
	if a := s.srv.opts.Advertised; a != "" {
		return a
	}
	return s.conn.nc.LocalAddr().String()
}
