package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"polylog/core"
	"polylog/core/accept"
	"polylog/protocols/kafka/group"
	"polylog/router"
)

// Options say what a Server serves and how much of the machine it may use.
type Options struct {
	Router     *router.Router
	Listeners  []net.Listener // taken over: Close closes them; none: only other protocols are served
	Advertised string         // host:port that clients are told; else the address that each came by
	Rack       string
	Namespace  string // of the clients' topics and groups, core.DefaultNamespace when empty
	DataDir    string // shown to administrators
	Clock      func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer // of metrics; nil for none
	Clients    *router.Clients       // that connections are listed in; nil: none are
	Groups     group.Config          // limits and times of consumer groups; Logger is set

	MaxConnections       int           // default 10,000
	IdleTimeout          time.Duration // connections.max.idle.ms, default 10 min; below 0: never
	FrameTimeout         time.Duration // for each 2 MiB of a frame to arrive, and for its first 64 KiB; default 30 s
	WriteTimeout         time.Duration // for each MiB of a response, default 30 s
	MaxRequestBytes      int           // socket.request.max.bytes, default 100 MiB
	MaxOtherRequestBytes int           // the same for requests that carry no records, default 4 MiB
	MaxInFlight          int           // unanswered Produces of a connection, default 128
	MaxInFlightBytes     int           // their frames, after which no more are read; default 32 MiB
	RequestMemory        int64         // bytes of requests in flight, all connections; default 512 MiB
	MaxAnswerBytes       int64         // memory of one answer that is not a Fetch's, default 64 MiB
	AnswerMemory         int64         // the same for all large answers that are not sent yet; default 128 MiB
	loginDelay           time.Duration // until a client learns that it is not logged in; default 100 ms
	closeGrace           time.Duration // for what Close cut off to end; default 5 s
	FetchMemory          int           // bytes of answers not sent yet after which each fetch gets little; default 256 MiB
}

func (o *Options) ensureDefaults() {
	setDefault(&o.MaxConnections, 10_000)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.FrameTimeout, 30*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.MaxRequestBytes, 100<<20)
	setDefault(&o.MaxOtherRequestBytes, 4<<20)
	setDefault(&o.MaxInFlight, 128)
	setDefault(&o.MaxInFlightBytes, 32<<20)
	setDefault(&o.RequestMemory, 512<<20)
	setDefault(&o.FetchMemory, 256<<20)
	setDefault(&o.loginDelay, 100*time.Millisecond) // connection.failed.authentication.delay.ms
	setDefault(&o.closeGrace, 5*time.Second)
	setDefault(&o.MaxAnswerBytes, 64<<20)
	setDefault(&o.AnswerMemory, 128<<20)
	setDefault(&o.Namespace, core.DefaultNamespace)
	o.AnswerMemory = max(o.AnswerMemory, o.MaxAnswerBytes)
	o.RequestMemory = max(o.RequestMemory, int64(o.MaxRequestBytes))
	if o.IdleTimeout < 0 { // Kafka's way to say never
		o.IdleTimeout = forever
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

const forever = 100 * 365 * 24 * time.Hour

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Server serves Kafka's protocol on its listeners.
type Server struct {
	opts              Options
	log               *slog.Logger
	router            *router.Router
	apis              apiTable
	requestBytes      *budget
	smallRequestBytes *budget // of frames up to smallFrame
	parkedBytes       *budget // of fetches that wait for records
	answerBytes       *semaphore.Weighted
	inflating         inflating
	fetchHeld         atomic.Int64 // bytes of records in fetch answers that are not sent yet
	fetchSessions     *fetchCache
	groups            *groups
	metrics           *metrics

	stopping chan struct{} // closed when Close begins: long polls answer with what they have
	wg       sync.WaitGroup

	mu    sync.Mutex // guards conns and the closing of stopping
	conns map[*conn]struct{}
}

// New makes a Server. Serve starts it.
func New(o Options) (*Server, error) {
	o.ensureDefaults()
	if o.Router == nil {
		return nil, errors.New("kafka: no router")
	}
	reserve := max(o.RequestMemory/16, 1)
	s := &Server{
		opts:              o,
		log:               o.Logger,
		router:            o.Router,
		apis:              newAPITable(),
		inflating:         newInflating(),
		fetchSessions:     newFetchCache(),
		requestBytes:      newBudget(max(o.RequestMemory-2*reserve, int64(o.MaxRequestBytes))),
		smallRequestBytes: newBudget(reserve),
		parkedBytes:       newBudget(reserve),
		answerBytes:       semaphore.NewWeighted(o.AnswerMemory),
		stopping:          make(chan struct{}),
		conns:             make(map[*conn]struct{}),
		groups:            newGroups(o.Router, o.Logger, o.Groups),
	}
	s.metrics = newMetrics(s)
	if o.Registerer != nil {
		if err := o.Registerer.Register(s.metrics); err != nil {
			return nil, fmt.Errorf("register the kafka metrics: %w", err)
		}
	}
	return s, nil
}

// Serve accepts connections until Close, other nodes' and other protocols' too. It returns at once.
func (s *Server) Serve() {
	s.wg.Go(s.groups.run)
	s.router.ServePeers(insideService, s.serveInside)
	for _, l := range s.opts.Listeners {
		s.wg.Go(func() { accept.Loop(l, s.stopping, s.log, s.startConn) })
	}
}

// startConn serves nc unless there are too many connections already.
func (s *Server) startConn(nc net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	c := newConn(s, nc, cancel)
	s.mu.Lock()
	full := len(s.conns) >= s.opts.MaxConnections
	refused := full || s.isStopping()
	if !refused {
		s.conns[c] = struct{}{}
		s.metrics.accepted.Add(1)
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if refused {
		if full {
			s.metrics.refused.Add(1)
			s.log.Warn("kafka connection refused", "client", nc.RemoteAddr().String(), "max", s.opts.MaxConnections)
		}
		cancel()
		_ = nc.Close()
		return
	}
	go func() {
		defer s.wg.Done()
		defer cancel()
		if _, inside := nc.(insideConn); !inside { // whose client the other protocol lists
			leave := s.opts.Clients.Add(c.describe)
			defer leave()
		}
		c.serve(ctx)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// now is the time in ms since the epoch.
func (s *Server) now() int64 { return s.opts.Clock().UnixMilli() }

// freeFetchBytes is how much more fetch answers may hold; below 0 when they hold more
// than they should.
func (s *Server) freeFetchBytes() int {
	return s.opts.FetchMemory - int(s.fetchHeld.Load())
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

var errStuck = errors.New("kafka: requests go on after their connections were closed")

// Close stops accepting and reading, answers what is in flight, and closes every
// connection. When ctx ends first, what is still unanswered is cut off. It returns when
// all goroutines have ended, or with an error when some do not although they should. It
// may be called again.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.isStopping() {
		close(s.stopping)
	}
	for c := range s.conns {
		_ = c.nc.SetReadDeadline(time.Now())
	}
	s.mu.Unlock()
	s.groups.close()
	var err error
	for _, l := range s.opts.Listeners {
		if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	ended := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.mu.Lock()
		for c := range s.conns {
			_ = c.nc.Close()
			c.stop()
		}
		s.mu.Unlock()
		select {
		case <-ended:
		case <-time.After(s.opts.closeGrace):
			err = errors.Join(err, errStuck)
		}
	}
	return err
}
