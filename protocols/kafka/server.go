package kafka

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Options say what a Server serves and how much of the machine it may use.
type Options struct {
	Listeners []net.Listener // taken over: Close closes them
	Logger    *slog.Logger

	MaxConnections       int           // default 10,000
	IdleTimeout          time.Duration // connections.max.idle.ms, default 10 min
	FrameTimeout         time.Duration // for a frame to arrive, on top of 64 KiB/s; default 30 s
	WriteTimeout         time.Duration // for each MiB of a response, default 30 s
	MaxRequestBytes      int           // socket.request.max.bytes, default 100 MiB
	MaxOtherRequestBytes int           // the same for requests that carry no records, default 4 MiB
	MaxInFlight          int           // unanswered Produces of a connection, default 128
	MaxInFlightBytes     int           // their frames, after which no more are read; default 32 MiB
	RequestMemory        int64         // bytes of requests in flight, all connections; default 512 MiB
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
	o.RequestMemory = max(o.RequestMemory, int64(o.MaxRequestBytes))
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

// Server serves Kafka's protocol on its listeners.
type Server struct {
	opts         Options
	log          *slog.Logger
	apis         apiTable
	requestBytes *semaphore.Weighted

	stopping chan struct{} // closed when Close begins: long polls answer with what they have
	wg       sync.WaitGroup

	mu    sync.Mutex // guards conns and the closing of stopping
	conns map[*conn]struct{}
}

// New makes a Server. Serve starts it.
func New(o Options) (*Server, error) {
	o.ensureDefaults()
	if len(o.Listeners) == 0 {
		return nil, errors.New("kafka: no listener")
	}
	return &Server{
		opts:         o,
		log:          o.Logger,
		apis:         newAPITable(),
		requestBytes: semaphore.NewWeighted(o.RequestMemory),
		stopping:     make(chan struct{}),
		conns:        make(map[*conn]struct{}),
	}, nil
}

// Serve accepts connections until Close. It returns at once.
func (s *Server) Serve() {
	for _, l := range s.opts.Listeners {
		s.wg.Go(func() { s.accept(l) })
	}
}

func (s *Server) accept(l net.Listener) {
	delay := 5 * time.Millisecond
	for {
		nc, err := l.Accept()
		if s.isStopping() {
			if err == nil {
				_ = nc.Close()
			}
			return
		}
		if err != nil { // out of file descriptors, most likely: wait for some to come back
			s.log.Error("kafka listener cannot accept", "err", err, "retry", delay)
			select {
			case <-time.After(delay):
			case <-s.stopping:
				return
			}
			delay = min(2*delay, time.Second)
			continue
		}
		delay = 5 * time.Millisecond
		s.startConn(nc)
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
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if refused {
		if full {
			s.log.Warn("kafka connection refused", "client", nc.RemoteAddr().String(), "max", s.opts.MaxConnections)
		}
		cancel()
		_ = nc.Close()
		return
	}
	go func() {
		defer s.wg.Done()
		defer cancel()
		c.serve(ctx)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// Close stops accepting and reading, answers what is in flight, and closes every
// connection. When ctx ends first, what is still unanswered is cut off. It returns when
// all goroutines have ended, and may be called again.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.isStopping() {
		close(s.stopping)
	}
	for c := range s.conns {
		_ = c.nc.SetReadDeadline(time.Now())
	}
	s.mu.Unlock()
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
		<-ended
	}
	return err
}
