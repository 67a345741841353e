package cluster

import (
	"context"

	"polylog/core"
)

// Handle has fn serve the streams that this cluster's nodes, this one included, open
// for a service; peer is the id of the node that did. Each stream has a goroutine for
// fn, which must end soon after the stream's context; the stream ends with fn's return,
// and its error reaches the other side with its kind. Until a service has a handler its
// streams are refused with an error of kind Unavailable.
func (n *Node) Handle(service string, fn func(peer string, s core.Stream) error) {
	n.network.Handle(service, fn)
}

// HandleAny is Handle for a service that nodes of no cluster, and command lines, may use,
// too.
func (n *Node) HandleAny(service string, fn func(peer string, s core.Stream) error) {
	n.network.HandleAny(service, fn)
}

// OpenStreamTo is OpenStream for a node that need not be a member, at addr.
func (n *Node) OpenStreamTo(ctx context.Context, nodeID, addr, service string) (core.Stream, error) {
	return n.network.Open(ctx, nodeID, addr, service)
}

// Silent reports whether somebody takes connections at addr and says nothing until ctx ends.
func (n *Node) Silent(ctx context.Context, addr string) bool { return n.network.Silent(ctx, addr) }

// OpenStream opens a stream for a service of a node, which may be this one. It ends
// with ctx, which must be cancelled in the end unless Recv has given an error. The error
// is of kind NotFound where no member has that id, and Unavailable where the node cannot
// be reached now; what the other side has to say against it comes from Recv.
func (n *Node) OpenStream(ctx context.Context, nodeID, service string) (core.Stream, error) {
	if nodeID == n.o.NodeID {
		return n.network.Open(ctx, nodeID, "", service)
	}
	for _, s := range n.servers() {
		if string(s.ID) == nodeID {
			return n.network.Open(ctx, nodeID, string(s.Address), service)
		}
	}
	return nil, core.E(core.NotFound, "no node %q in this cluster", nodeID)
}
