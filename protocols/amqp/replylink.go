package amqp

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"polylog/core"
	"polylog/core/wire"
	"polylog/protocols/amqp/spec"
)

// Answers to questions of clients of other nodes go there over one stream for each node, which is
// opened when there is an answer. They may be lost, as those of this node.

// replyService is the name of the streams among nodes.
const replyService = "amqp-replies"

// A message of a stream is one of these bytes and what it says. Answers come in pieces.
const (
	replyLast  = 0 // the last piece of an answer
	replyMore  = 1 // a piece with others to follow
	replyQuery = 2 // an address: is there somebody? Answered by one byte, 1 or 0
)

// replyPiece is the size of the pieces, in bytes.
const replyPiece = core.MaxStreamMessage - 1

// Bounds of what waits for another node, in bytes, and of how long a stream stays open that nobody
// needs, and of how long the other node may take to say who is there.
const (
	maxReplyQueued = 32 << 20
	replyLinkIdle  = time.Minute
	replyPatience  = 5 * time.Second
)

// An answer between nodes: address and content header, with their lengths in front, and the body.
func encodeReply(address string, p *spec.Properties, body []byte) []byte {
	header := spec.AppendHeader(nil, 0, len(body), p)
	header = header[spec.FrameHeadLen : len(header)-1]
	return append(wire.AppendBytes(wire.AppendString(nil, address), header), body...)
}

func decodeReply(b []byte) (address string, p *spec.Properties, body []byte, err error) {
	r := wire.NewReader(b)
	address = r.String()
	header := r.Bytes()
	body = r.Rest()
	if r.Err() != nil {
		return "", nil, nil, core.E(core.Invalid, "answer: %v", r.Err())
	}
	p = new(spec.Properties)
	var d spec.Decoder
	if _, _, err := d.Header(header, p); err != nil {
		return "", nil, nil, core.E(core.Invalid, "answer: %v", err)
	}
	return address, p, body, nil
}

// nodeOf is the node in an address.
func nodeOf(address string) string {
	node := strings.TrimPrefix(address, replyPrefix)
	return node[:max(strings.LastIndexByte(node, '.'), 0)]
}

// replyLinks are the streams to other nodes.
type replyLinks struct {
	srv  *Server
	ctx  context.Context //nolint:containedctx // ends when the server closes
	stop context.CancelFunc

	mu     sync.Mutex // guards what follows, and the links' queues
	byNode map[string]*replyLink
	wg     sync.WaitGroup // added to under mu, as long as ctx has not ended
}

// replyLink is what waits for a node.
type replyLink struct {
	node  string
	wake  chan struct{} // of capacity 1
	queue [][]byte
	bytes int
}

func (l *replyLinks) init(s *Server) {
	l.srv = s
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.byNode = map[string]*replyLink{}
	s.router.ServePeers(replyService, s.serveReplies)
}

// close ends the streams and waits for them.
func (l *replyLinks) close() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.wg.Wait()
}

// send queues an answer for another node. It does not block.
func (l *replyLinks) send(node string, answer []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	k := l.byNode[node]
	if k == nil {
		k = &replyLink{node: node, wake: make(chan struct{}, 1)}
		l.byNode[node] = k
		l.wg.Go(func() { l.run(k) })
	}
	if k.bytes+len(answer) > maxReplyQueued {
		l.srv.metrics.repliesLost.Add(1)
		return
	}
	k.queue, k.bytes = append(k.queue, answer), k.bytes+len(answer)
	signal(k.wake)
}

// run sends what is queued for a node, until nothing was for long. When that fails, what is queued
// is lost.
func (l *replyLinks) run(k *replyLink) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	s, err := l.srv.router.OpenPeer(ctx, k.node, replyService)
	idle := time.NewTimer(replyLinkIdle)
	defer idle.Stop()
	for err == nil {
		select {
		case <-k.wake:
			err = l.flush(k, s)
			idle.Reset(replyLinkIdle)
		case <-idle.C:
			if l.leave(k, false) {
				return
			}
		case <-s.Context().Done():
			err = s.Context().Err()
		}
	}
	l.leave(k, true)
	l.srv.log.Debug("amqp answers to another node are lost", "node", k.node, "err", err)
}

// leave takes the link away. Unless it is lost, it stays when something is queued.
func (l *replyLinks) leave(k *replyLink, lost bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !lost && len(k.queue) > 0 {
		return false
	}
	delete(l.byNode, k.node)
	l.srv.metrics.repliesLost.Add(int64(len(k.queue)))
	return true
}

func (l *replyLinks) flush(k *replyLink, s core.Stream) error {
	for {
		l.mu.Lock()
		if len(k.queue) == 0 {
			k.queue = nil
			l.mu.Unlock()
			return nil
		}
		answer := k.queue[0]
		k.queue[0] = nil
		k.queue, k.bytes = k.queue[1:], k.bytes-len(answer)
		l.mu.Unlock()
		if err := sendPieces(s, answer); err != nil {
			l.srv.metrics.repliesLost.Add(1)
			return err
		}
	}
}

func sendPieces(s core.Stream, b []byte) error {
	var frame []byte
	for {
		n := min(len(b), replyPiece)
		kind := byte(replyLast)
		if n < len(b) {
			kind = replyMore
		}
		frame = append(append(frame[:0], kind), b[:n]...)
		if err := s.Send(frame); err != nil || kind == replyLast {
			return err
		}
		b = b[n:]
	}
}

// serveReplies takes what another node sends.
func (s *Server) serveReplies(_ string, stream core.Stream) error {
	var whole []byte
	for {
		b, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case s.isStopping():
			return core.E(core.Closed, "the server is stopping")
		case len(b) == 0:
			return core.E(core.Invalid, "an empty message")
		case len(whole)+len(b) > s.opts.MaxMessageBytes+maxFrame:
			return core.E(core.TooLarge, "an answer of more than %d bytes", s.opts.MaxMessageBytes)
		}
		switch kind, rest := b[0], b[1:]; kind {
		case replyMore:
			whole = append(whole, rest...)
		case replyLast:
			if err := s.takeReply(append(whole, rest...)); err != nil {
				return err
			}
			whole = nil
		case replyQuery:
			found := byte(0)
			if s.replies.find(string(rest)) != nil {
				found = 1
			}
			if err := stream.Send([]byte{found}); err != nil {
				return err
			}
		default:
			return core.E(core.Invalid, "message of kind %d", kind)
		}
	}
}

func (s *Server) takeReply(b []byte) error {
	address, p, body, err := decodeReply(b)
	if err != nil {
		return err
	}
	if k := s.replies.find(address); k != nil {
		k.deliver(p, body)
	}
	return nil
}

// reply sends an answer to whom its address names, wherever that is.
func (s *Server) reply(address string, p *spec.Properties, body []byte) {
	if k := s.replies.find(address); k != nil {
		k.deliver(p, body)
	} else if node := nodeOf(address); node != s.opts.NodeID && s.isMember(node) {
		s.links.send(node, encodeReply(address, p, body))
	}
}

// awaits reports whether somebody consumes answers with an address, on whatever node.
func (s *Server) awaits(ctx context.Context, address string) bool {
	if s.replies.find(address) != nil {
		return true
	}
	node := nodeOf(address)
	if node == s.opts.NodeID || !s.isMember(node) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, replyPatience)
	defer cancel()
	stream, err := s.router.OpenPeer(ctx, node, replyService)
	if err != nil {
		return false
	}
	if err := stream.Send(append([]byte{replyQuery}, address...)); err != nil {
		return false
	}
	b, err := stream.Recv()
	return err == nil && len(b) == 1 && b[0] == 1
}

func (s *Server) isMember(node string) bool {
	for _, m := range s.router.Cluster().Members {
		if m.ID == node {
			return true
		}
	}
	return false
}
