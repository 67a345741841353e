package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/core"
	"polylog/router"
)

// Options say what a Server serves and how much of the machine it may use.
type Options struct {
	Router     *router.Router
	Listeners  []net.Listener // for MQTT over TCP; taken over: Close closes them
	WebSockets []net.Listener // for MQTT over WebSocket; the same
	Namespace  string         // of the topics, core.DefaultNamespace when empty
	Rules      []Rule         // where messages go; the first level of their topic name otherwise
	Fallback   string         // topic of names whose first level is no legal topic name; "mqtt" when empty
	Clock      func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer // of metrics; nil for none
	Version    string                // of the program, for $SYS
	Clients    *router.Clients       // that connections are listed in; nil: none are

	// EnhancedAuth makes the exchange for an authentication method and a client's address, nil for a
	// method that is not known. Where it is nil there is SCRAM for the router's users.
	EnhancedAuth  func(method, host string) Exchange
	DenySubscribe []string // filters that nobody may subscribe to, as they are written

	MaxConnections int           // default 10,000
	MaxPacketBytes int           // of a client's packets after the fixed header, default 1 MiB
	MaxQueued      int           // QoS 1 and 2 messages that wait for a slow subscriber; default 20,000
	MaxQueuedBytes int64         // the same, in bytes of their payloads; default 0: any
	ReceiveMaximum int           // unacknowledged QoS 1 and 2 publishes of a client, default 1024
	MaxKeepAlive   time.Duration // clients that want a longer one, or none, are told this one; default 0: any
	SysInterval    time.Duration // between messages under $SYS, default 10 s
	// MaxSessionExpiry is how long a session may go on without a connection: clients that want
	// more, and those of MQTT 3.1.1, which cannot say, get this; default 0: any.
	MaxSessionExpiry time.Duration
	ConnectTimeout   time.Duration // until CONNECT has come, default 10 s
	WriteTimeout     time.Duration // for each 64 KiB, default 30 s
	loginDelay       time.Duration // before a login is refused, default 100 ms
	closeGrace       time.Duration // for what Close cut off to end, default 5 s
}

func (o *Options) ensureDefaults() {
	setDefault(&o.Namespace, core.DefaultNamespace)
	setDefault(&o.Fallback, "mqtt")
	setDefault(&o.MaxConnections, 10_000)
	setDefault(&o.MaxPacketBytes, 1<<20)
	setDefault(&o.MaxQueued, 20_000)
	setDefault(&o.ReceiveMaximum, 1024)
	setDefault(&o.SysInterval, 10*time.Second)
	setDefault(&o.ConnectTimeout, 10*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.loginDelay, 100*time.Millisecond)
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

// Server serves MQTT on its listeners.
type Server struct {
	opts    Options
	log     *slog.Logger
	router  *router.Router
	mapping mapping
	metrics *metrics
	subs    subscriptions
	sys     *sysTopics
	tail    *router.Tail

	ctx  context.Context //nolint:containedctx // the server's life: proposals of closing connections end with it
	stop context.CancelFunc
	quit chan struct{} // closed when Close begins
	wg   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	conns   map[*conn]struct{}
	clients map[string]*conn // by client id, of connections that were accepted
	closed  bool
}

// New makes a Server. Serve starts it.
func New(o Options) (*Server, error) {
	o.ensureDefaults()
	if len(o.Listeners)+len(o.WebSockets) == 0 || o.Router == nil {
		return nil, errors.New("mqtt: no listener or no router")
	}
	if err := router.CheckTopicName(o.Fallback); err != nil {
		return nil, err
	}
	s := &Server{
		opts: o, log: o.Logger, router: o.Router,
		mapping: mapping{o.Rules, o.Fallback},
		quit:    make(chan struct{}),
		conns:   map[*conn]struct{}{},
		clients: map[string]*conn{},
	}
	s.metrics = newMetrics(s)
	s.sys = newSysTopics(s)
	if o.Registerer != nil {
		if err := o.Registerer.Register(s.metrics); err != nil {
			return nil, fmt.Errorf("register the mqtt metrics: %w", err)
		}
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	o.Router.ServePeers(sysService, s.sys.serve)
	s.tail = o.Router.Tail(router.TailSpec{Topics: s.wants})
	return s, nil
}

// wants is whether records of a topic can be for subscribers here.
func (s *Server) wants(t *router.Topic) bool {
	return t.Name.Namespace == s.opts.Namespace && !t.Internal && s.subs.any()
}

// Serve accepts connections until Close. It returns at once.
func (s *Server) Serve() {
	s.wg.Go(s.fanOut)
	s.wg.Go(s.sys.run)
	for _, l := range s.opts.Listeners {
		s.wg.Go(func() { s.accept(l) })
	}
	for _, l := range s.opts.WebSockets {
		s.wg.Go(func() { s.serveWebSocket(l) })
	}
}

// now is the time in ms since the epoch.
func (s *Server) now() int64 { return s.opts.Clock().UnixMilli() }

// connected is the number of connections now.
func (s *Server) connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// greeted is the number of clients that are connected now.
func (s *Server) greeted() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if c.greeted {
			n++
		}
	}
	return n
}

// register takes up a connection, unless there are too many or the server stops.
func (s *Server) register(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.conns) >= s.opts.MaxConnections {
		s.metrics.refused.Add(1)
		s.log.Warn("mqtt connection refused", "client", c.remote, "max", s.opts.MaxConnections)
		return false
	}
	s.conns[c] = struct{}{}
	s.metrics.accepted.Add(1)
	return true
}

func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.clients[c.client] == c {
		delete(s.clients, c.client)
	}
}

// claim makes c the one connection here of its client id, and returns the one that was. It is refused
// where that owns it, for another user who is still there.
func (s *Server) claim(c *conn) (old *conn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old = s.clients[c.client]
	if old != nil && old.owns && old.principal.Name != c.principal.Name && s.router.User(old.principal.Name) != nil {
		return nil, false
	}
	s.clients[c.client] = c
	return old, true
}

var errStuck = errors.New("mqtt: connections go on after they were closed")

// Close stops accepting, tells every client and closes its connection. When ctx ends first,
// what is unsent is cut off. It returns when all goroutines have ended, or with an error when
// some do not although they should. It may be called again.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	if first {
		close(s.quit)
	}
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	var err error
	for _, ls := range [][]net.Listener{s.opts.Listeners, s.opts.WebSockets} {
		for _, l := range ls {
			if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
				err = errors.Join(err, e)
			}
		}
	}
	for _, c := range all {
		c.kick(codeShuttingDown)
	}
	s.tail.Close()
	ended := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.stop()
		for _, c := range all {
			c.cut()
		}
		select {
		case <-ended:
		case <-time.After(s.opts.closeGrace):
			err = errors.Join(err, errStuck)
		}
	}
	s.stop()
	if first && s.opts.Registerer != nil {
		s.opts.Registerer.Unregister(s.metrics)
	}
	return err
}
