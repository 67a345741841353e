package router

import (
	"context"

	"polylog/core"
)

// What a protocol's nodes say to each other past the log: what may be lost, and would only cost
// there.

const peerService = "protocol-"

// ServePeers has fn serve the streams that the other nodes open for a protocol of this node;
// peer is the other's id. The stream ends with fn's return.
func (r *Router) ServePeers(protocol string, fn func(peer string, s core.Stream) error) {
	r.log.Handle(peerService+protocol, fn)
}

// OpenPeer opens a stream to a protocol of another node. It ends with ctx, which is to be
// cancelled unless Recv has given an error. Error kinds: NotFound, where no member has that id,
// and Unavailable.
func (r *Router) OpenPeer(ctx context.Context, node, protocol string) (core.Stream, error) {
	return r.log.OpenStream(ctx, node, peerService+protocol)
}
