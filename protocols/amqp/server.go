package amqp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/core/accept"
	"polylog/core/message"
	"polylog/router"
)

// Options say what a Server serves and how much of the machine it may use.
type Options struct {
	Router      *router.Router
	NodeID      string // part of the names of connections
	ClusterName string // shown to clients
	Clock       func() time.Time
	Logger      *slog.Logger
	Registerer  prometheus.Registerer // of metrics; nil for none
	Clients     *router.Clients       // that connections are listed in; nil: none are

	MaxConnections   int           // default 10,000
	HandshakeTimeout time.Duration // until connection.open, default 10 s
	CloseTimeout     time.Duration // for the answer to connection.close, default 10 s
	Heartbeat        time.Duration // that clients are offered, default 60 s
	ConsumerTimeout  time.Duration // for which a client may keep a delivery, where nothing else says so; 0: for ever
	MaxMessageBytes  int           // default 16 MiB
	MaxInFlightBytes int           // of memory for what a connection published and is not settled, default 8 MiB
	// MessageMemory is for messages that are being received or not settled, of all
	// connections; nobody may begin another one beyond it. Default 128 MiB.
	MessageMemory int64

	heartbeatUnit time.Duration // what clients count heartbeats in; 1 s
	silence       time.Duration // before a client whose login failed is reset; 3 s
	patience      time.Duration // of a client that waits for memory before it is told; 1 s
	stall         time.Duration // in which what is half received has to gain, when others wait for memory; 30 s
	closeGrace    time.Duration // for what Close cut off to end; default 5 s
}

func (o *Options) ensureDefaults() {
	setDefault(&o.MaxConnections, 10_000)
	setDefault(&o.HandshakeTimeout, 10*time.Second)
	setDefault(&o.CloseTimeout, 10*time.Second)
	setDefault(&o.Heartbeat, 60*time.Second)
	setDefault(&o.MaxMessageBytes, 16<<20)
	setDefault(&o.MaxInFlightBytes, 8<<20)
	setDefault(&o.MessageMemory, 128<<20)
	setDefault(&o.heartbeatUnit, time.Second)
	setDefault(&o.silence, 3*time.Second)
	setDefault(&o.patience, time.Second)
	setDefault(&o.stall, 30*time.Second)
	setDefault(&o.closeGrace, 5*time.Second)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Server serves AMQP 0-9-1 on its listeners.
type Server struct {
	opts       Options
	log        *slog.Logger
	router     *router.Router
	properties message.Table // of connection.start
	metrics    *metrics
	memory     memory
	replies    replies
	links      replyLinks // for answers to other nodes' clients
	run        string     // part of the names of connections: this run of the program

	stopping chan struct{} // closed when Close begins
	stopped  chan struct{} // closed when the connections are gone: the sweep ends
	wg       sync.WaitGroup
	sweeping sync.WaitGroup

	mu        sync.Mutex // guards what follows, and the closing of stopping
	conns     map[*conn]struct{}
	last      uint64 // number of the last connection
	listeners []net.Listener
}

// NewServer makes a Server. Serve starts it.
func NewServer(o Options) (*Server, error) {
	o.ensureDefaults()
	if o.Router == nil {
		return nil, errors.New("amqp: no router")
	}
	s := &Server{
		opts:     o,
		log:      o.Logger,
		router:   o.Router,
		memory:   memory{limit: o.MessageMemory, uploads: map[*upload]struct{}{}},
		run:      rand.Text()[:8],
		stopping: make(chan struct{}),
		stopped:  make(chan struct{}),
		conns:    map[*conn]struct{}{},
	}
	s.properties = s.serverProperties()
	s.metrics = &metrics{srv: s}
	if o.Registerer != nil {
		if err := o.Registerer.Register(s.metrics); err != nil {
			return nil, fmt.Errorf("register the amqp metrics: %w", err)
		}
	}
	s.links.init(s)
	s.sweeping.Go(s.sweep)
	return s, nil
}

// Serve accepts connections on a listener until Close, which closes it. It returns at once.
func (s *Server) Serve(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isStopping() {
		_ = l.Close()
		return
	}
	s.listeners = append(s.listeners, l)
	s.wg.Go(func() { accept.Loop(l, s.stopping, s.log, s.startConn) })
}

// startConn serves nc unless there are too many connections already.
func (s *Server) startConn(nc net.Conn) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.mu.Lock()
	full := len(s.conns) >= s.opts.MaxConnections
	if full || s.isStopping() {
		s.mu.Unlock()
		if full {
			s.metrics.refused.Add(1)
			s.log.Warn("amqp connection refused", "client", nc.RemoteAddr().String(), "max", s.opts.MaxConnections)
		}
		cancel(nil)
		_ = nc.Close()
		return
	}
	s.last++
	c := newConn(s, nc, s.opts.NodeID+":"+s.run+":"+strconv.FormatUint(s.last, 10), cancel)
	s.conns[c] = struct{}{}
	s.metrics.accepted.Add(1)
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		defer cancel(nil)
		c.serve(ctx)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// all are the connections.
func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		cs = append(cs, c)
	}
	return cs
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

var errStuck = errors.New("amqp: handlers go on after their connections were closed")

// Close stops accepting, settles what was published, and closes every connection with
// CONNECTION_FORCED. When ctx ends first, connections are cut off. It returns when all
// goroutines have ended, or with an error when some do not although they should. It may be
// called again.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.isStopping()
	if first {
		close(s.stopping)
	}
	listeners := s.listeners
	s.listeners = nil
	s.mu.Unlock()
	var err error
	for _, l := range listeners {
		if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	for _, c := range s.all() {
		c.stop()
	}
	ended := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		for _, c := range s.all() {
			c.abort(errStopping)
		}
		select {
		case <-ended:
		case <-time.After(s.opts.closeGrace):
			err = errors.Join(err, errStuck)
		}
	}
	s.links.close()
	if first {
		close(s.stopped)
	}
	s.sweeping.Wait()
	return err
}
