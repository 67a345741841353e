package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"polylog/core"
	"polylog/router"
)

// Network is how nodes reach each other, as cluster.Node has it.
type Network interface {
	// HandleAny serves streams of nodes of this cluster and of none.
	HandleAny(service string, fn func(peer string, s core.Stream) error)
	// OpenStream opens a stream to a member.
	OpenStream(ctx context.Context, id, service string) (core.Stream, error)
	// OpenStreamTo opens a stream to the node id at addr, member or not.
	OpenStreamTo(ctx context.Context, id, addr, service string) (core.Stream, error)
	// Silent reports whether somebody takes connections at addr and says nothing until
	// ctx ends.
	Silent(ctx context.Context, addr string) bool
}

// Options are what a Server is made of; all but Logger are required.
type Options struct {
	Router  *router.Router
	Network Network
	// Status is what this node says of itself.
	Status func() Status
	// Self is this node as it wants to take part.
	Self func() router.Candidate
	// Stop has the process end in good order. It must not wait for that.
	Stop func(why string)
	// Expelled has the process end because this node takes part no more, or must
	// not. It must not wait for that.
	Expelled func(error)
	Logger   *slog.Logger
}

// Server answers requests, and watches whether this node still takes part.
type Server struct {
	o      Options
	recall chan struct{}

	stopping atomic.Bool // this node was asked to stop
	// fewer is held while the leader has fewer nodes run: each such request counts those
	// that are left after the one before.
	fewer sync.Mutex

	stop  context.CancelFunc
	ctx   context.Context // ends with Close
	loops sync.WaitGroup
}

// Serve answers requests from now on.
func Serve(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, recall: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	o.Network.HandleAny(Service, s.serve)
	s.loops.Go(s.watch)
	return s
}

// Close stops watching; the requests end with the network.
func (s *Server) Close() {
	s.stop()
	s.loops.Wait()
}

// serve answers the one request of a stream.
func (s *Server) serve(_ string, st core.Stream) error {
	b, err := st.Recv()
	if err != nil {
		return err
	}
	var r request
	if err := json.Unmarshal(b, &r); err != nil {
		return core.E(core.Invalid, "request that is no JSON: %v", err)
	}
	ctx, cancel := context.WithTimeout(st.Context(), r.timeout())
	defer cancel()
	answer, err := s.answer(ctx, &r)
	if err != nil {
		return err
	}
	if b, err = json.Marshal(answer); err != nil {
		return core.E(core.Internal, "answer to %s: %v", r.Op, err)
	}
	return st.Send(b)
}

// answer is the table of what requests mean.
func (s *Server) answer(ctx context.Context, r *request) (any, error) {
	if (r.Op == opAdmit || r.Op == opJoin) && r.Candidate == nil {
		return nil, core.E(core.Invalid, "%s: no node is named", r.Op)
	}
	switch r.Op {
	case opInfo:
		return s.info(), nil
	case opStatus:
		return s.status(), nil
	case opHealth:
		return s.health(ctx, r.Compare)
	case opStop:
		s.halt()
		return struct{}{}, nil
	case opRecall:
		select {
		case s.recall <- struct{}{}:
		default:
		}
		return struct{}{}, nil
	case opAdmit, opJoin, opRemove, opDrain:
		if !s.o.Router.IsLeader() {
			return s.passOn(ctx, r)
		}
		return s.lead(ctx, r)
	}
	return nil, core.E(core.Unsupported, "node %s does not know the operation %.40q", s.o.Router.Cluster().NodeID, r.Op)
}

// halt has this node stop. From now on its status says so.
func (s *Server) halt() {
	s.stopping.Store(true)
	s.o.Stop("asked to by polylog cluster drain")
}

func (s *Server) status() Status {
	st := s.o.Status()
	st.Stopping = st.Stopping || s.stopping.Load()
	return st
}

// lead does what the leader does.
func (s *Server) lead(ctx context.Context, r *request) (any, error) {
	switch r.Op {
	case opAdmit:
		return s.admit(ctx, r.Candidate.candidate())
	case opJoin:
		return s.join(ctx, r.Candidate.candidate())
	case opRemove:
		return struct{}{}, s.remove(ctx, r.Node)
	default:
		return struct{}{}, s.drain(ctx, r.Node, r.Force)
	}
}

// maxHops bounds how often a request is passed on while leadership changes.
const maxHops = 2

// passOn has the leader answer.
func (s *Server) passOn(ctx context.Context, r *request) (json.RawMessage, error) {
	info := s.o.Router.Cluster()
	if !info.HasLeader || info.Leader.ID == info.NodeID || r.Hops >= maxHops {
		return nil, router.ErrNoLeader
	}
	next := *r
	next.Hops++
	st, err := s.o.Network.OpenStream(ctx, info.Leader.ID, Service)
	if err != nil {
		return nil, core.E(core.KindOf(err), "node %s cannot reach the leader, node %s: %v", info.NodeID, info.Leader.ID, err)
	}
	var answer json.RawMessage
	return answer, call(st, &next, &answer)
}

// askMember asks another member. Where the connection is refused nobody was asked: at the
// member's address is another node, or one of another cluster, as in a restored cluster whose
// log, while it is replayed, names the old one's members. That is no answer of ours.
func (s *Server) askMember(ctx context.Context, id string, r *request, answer any) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := s.o.Network.OpenStream(ctx, id, Service)
	if err != nil {
		return core.E(core.Unavailable, "%v", err)
	}
	return call(st, r, answer)
}

// probeTimeout bounds how long a node may take to say that it is there.
const probeTimeout = 2 * time.Second

// probe asks the node id at addr for its status.
func (s *Server) probe(ctx context.Context, id, addr string) (st Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	stream, err := s.o.Network.OpenStreamTo(ctx, id, addr, Service)
	if err != nil {
		return st, err
	}
	return st, call(stream, &request{Op: opStatus}, &st)
}

// reach is probe for a node that has just begun to listen: until the connection's pause after
// an earlier failure is over, what is heard of it is that failure.
func (s *Server) reach(ctx context.Context, id, addr string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	tick := time.NewTicker(reachPause)
	defer tick.Stop()
	for {
		st, err := s.probe(ctx, id, addr)
		if err == nil || core.KindOf(err) != core.Unavailable {
			return st, err
		}
		select {
		case <-ctx.Done():
			return st, err
		case <-tick.C:
		}
	}
}

// reachPause is between two tries of reach.
const reachPause = 100 * time.Millisecond
