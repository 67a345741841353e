package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// What only one node knows (its connections, its figures, as the leader the members of groups)
// the others ask it for, over a stream of the service ops.

const opsService = "ops"

// maxAnswer bounds a node's answer, in bytes.
const maxAnswer = 32 << 20

// opsRequest is what is sent; the answer is JSON, in pieces of up to core.MaxStreamMessage bytes,
// until the stream ends.
type opsRequest struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args"`
}

// The operations.
const (
	opConnections = "connections"
	opMetrics     = "metrics"
	opGroups      = "groups"
	opMembers     = "members"
)

// opsOf are what a node answers, by operation.
func (a *api) opsOf(ctx context.Context, r *opsRequest) (any, error) {
	switch r.Op {
	case opConnections:
		return doOp(ctx, r, a.localConnections)
	case opMetrics:
		return doOp(ctx, r, a.localMetrics)
	case opGroups:
		return doOp(ctx, r, a.localGroups)
	case opMembers:
		return doOp(ctx, r, a.localMembers)
	}
	return nil, core.E(core.Unsupported, "this node does not know the operation %.40q", r.Op)
}

func doOp[A, R any](ctx context.Context, r *opsRequest, do func(context.Context, A) (R, error)) (any, error) {
	var args A
	if err := json.Unmarshal(r.Args, &args); err != nil {
		return nil, core.E(core.Invalid, "%s: %v", r.Op, err)
	}
	return do(ctx, args)
}

// serveOps answers another node.
func (a *api) serveOps(_ string, s core.Stream) error {
	b, err := s.Recv()
	if err != nil {
		return err
	}
	if b, err = a.answerOp(s.Context(), b); err != nil {
		return err
	}
	for piece := range slices.Chunk(b, core.MaxStreamMessage) {
		if err := s.Send(piece); err != nil {
			return err
		}
	}
	return nil
}

// answerOp is the answer to another node's request. It is whole before it is sent: a node that takes
// none of it does not hold up the end of the data plane.
func (a *api) answerOp(ctx context.Context, request []byte) ([]byte, error) {
	var r opsRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, core.E(core.Invalid, "request that is no JSON: %v", err)
	}
	if !a.gate.Enter() {
		return nil, core.E(core.Unavailable, "the node is stopping")
	}
	defer a.gate.Leave()
	ctx, cancel := context.WithTimeout(ctx, front.CallTimeout)
	defer cancel()
	defer context.AfterFunc(a.gate.Context(), cancel)()
	answer, err := a.opsOf(ctx, &r)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(answer)
	if err == nil && len(b) > maxAnswer {
		err = core.E(core.TooLarge, "%s: the answer has %d bytes, the limit is %d", r.Op, len(b), maxAnswer)
	}
	return b, err
}

// ask has a node, which may be this one, answer.
func ask[A, R any](c *call, node, op string, args A, local func(context.Context, A) (R, error)) (answer R, err error) {
	if node == "" || node == c.router.Cluster().NodeID {
		return local(c.ctx, args)
	}
	encoded, err := json.Marshal(args)
	if err != nil {
		return answer, err
	}
	b, err := json.Marshal(opsRequest{Op: op, Args: encoded})
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, askTimeout)
	defer cancel()
	s, err := c.router.OpenPeer(ctx, node, opsService)
	if err != nil {
		return answer, err
	}
	if err := s.Send(b); err != nil {
		return answer, err
	}
	if b, err = receiveAll(s); err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(b, &answer)
}

// receiveAll is all that comes until the stream ends, up to maxAnswer bytes.
func receiveAll(s core.Stream) (all []byte, err error) {
	for {
		piece, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(all)+len(piece) > maxAnswer:
			return nil, core.E(core.TooLarge, "the answer has more than %d bytes", maxAnswer)
		}
		all = append(all, piece...)
	}
}

// leader is the node that leads; empty, with an error, where none does.
func (c *call) leader() (string, error) {
	info := c.router.Cluster()
	if !info.HasLeader {
		return "", router.ErrNoLeader
	}
	return info.Leader.ID, nil
}
