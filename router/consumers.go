package router

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"polylog/core"
	"polylog/core/wire"
)

// consumers are this node's consumers, and its link to the dispatcher of whoever leads. When
// the link is lost they are attached anew over the next one.
//
// Lock order: Consumer.mu, then consumers.mu, then that of the link.
type consumers struct {
	r    *Router
	wake chan struct{} // for keep: there is something to link for, or the link was lost

	mu       sync.Mutex // guards what follows
	all      map[uint64]*Consumer
	link     *link // nil: there is none
	last     uint64
	requests map[uint64]func(fromHub)
	waiting  []toHub // requests that wait for a link
	closed   bool
}

// link is a conversation with a dispatcher. What is sent is queued, and never blocks.
type link struct {
	leader string // its node
	out    outbox[toHub]
	lost   chan struct{} // closed when it is
	once   sync.Once
}

func (l *link) lose() { l.once.Do(func() { close(l.lost) }) }

// How long keep waits for a leader, and how often it looks whether it is still the same.
const (
	relinkWait   = 20 * time.Millisecond
	linkInterval = 100 * time.Millisecond
)

func (cs *consumers) init(r *Router) {
	cs.r = r
	cs.wake = make(chan struct{}, 1)
	cs.all = map[uint64]*Consumer{}
	cs.requests = map[uint64]func(fromHub){}
}

func (cs *consumers) kick() {
	select {
	case cs.wake <- struct{}{}:
	default:
	}
}

// add attaches a consumer, now or when there is a link.
func (cs *consumers) add(c *Consumer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return core.E(core.Closed, "this node is shutting down")
	}
	cs.last++
	c.id = cs.last
	cs.all[c.id] = c
	if cs.link != nil {
		c.attachLocked(cs.link)
	}
	cs.kick()
	return nil
}

// attachLocked attaches the consumer over a link.
func (c *Consumer) attachLocked(l *link) {
	c.link = l
	c.sendLocked(toHub{kind: hubAttach, queue: c.spec.Queue, group: c.spec.Group, attach: c.attachSpec()})
}

// sendLocked sends a message about the consumer over the link that it is attached by.
// Without one it is lost, as everything that it can be about is.
func (c *Consumer) sendLocked(m toHub) {
	if c.link != nil {
		m.consumer = c.id
		c.link.out.put(m)
	}
}

func (cs *consumers) remove(c *Consumer) {
	cs.mu.Lock()
	_, there := cs.all[c.id]
	delete(cs.all, c.id)
	cs.mu.Unlock()
	if there {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sendLocked(toHub{kind: hubDetach})
		c.link = nil
	}
}

// send sends a message that nobody waits for. Without a link it is lost.
func (cs *consumers) send(m toHub) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.link != nil {
		cs.link.out.put(m)
	}
}

// request sends a message and calls answered with the answer, or with an error. Without a
// link it waits for one, for as long as keep looks for it.
func (cs *consumers) request(m toHub, answered func(fromHub)) {
	cs.mu.Lock()
	var refusal error
	switch {
	case cs.closed:
		refusal = core.E(core.Closed, "this node is shutting down")
	case len(cs.waiting) >= maxWaiting:
		refusal = core.E(core.Unavailable, "there is no leader, and %d requests wait for one", len(cs.waiting))
	}
	if refusal != nil {
		cs.mu.Unlock()
		answered(fromHub{err: refusal})
		return
	}
	defer cs.mu.Unlock()
	cs.last++
	m.request = cs.last
	cs.requests[m.request] = answered
	if cs.link != nil {
		cs.link.out.put(m)
		return
	}
	cs.waiting = append(cs.waiting, m)
	cs.kick()
}

// maxWaiting bounds the requests that wait for a leader.
const maxWaiting = 1 << 13

// ask is request for whoever waits.
func (cs *consumers) ask(ctx context.Context, m toHub) (fromHub, error) {
	if ctx.Err() != nil {
		return fromHub{}, core.E(core.Unavailable, "%v", context.Cause(ctx))
	}
	answer := make(chan fromHub, 1)
	cs.request(m, func(a fromHub) { answer <- a })
	select {
	case a := <-answer:
		return a, a.err
	case <-ctx.Done():
		return fromHub{}, core.E(core.Uncertain, "no answer yet: %v", context.Cause(ctx))
	}
}

// settle is Consumer.Settle: in parts, where there are very many.
func (cs *consumers) settle(q core.QueueID, group string, o Outcome, after time.Duration, rs []Receipt, done func([]core.Kind, error)) {
	n := min(len(rs), receiptsPerMessage)
	m := toHub{kind: hubSettle, queue: q, group: group, outcome: o, n: max(after.Milliseconds(), 0), receipts: rs[:n:n]}
	rs = rs[n:]
	switch {
	case n == 0 && done != nil:
		done(nil, nil)
	case n == 0:
	case done == nil:
		cs.send(m)
		cs.settle(q, group, o, after, rs, nil)
	case len(rs) == 0:
		cs.request(m, func(a fromHub) { done(a.kinds, a.err) })
	default:
		cs.request(m, func(a fromHub) {
			if a.err != nil {
				done(nil, a.err)
				return
			}
			cs.settle(q, group, o, after, rs, func(kinds []core.Kind, err error) { done(append(a.kinds, kinds...), err) })
		})
	}
}

// receiptsPerMessage keeps one message below a frame.
const receiptsPerMessage = 2048

// keep has a link while there are consumers or requests, until ctx ends.
func (cs *consumers) keep(ctx context.Context) {
	var links sync.WaitGroup
	defer links.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	again := false // the last link was lost just now: not too eagerly
	for {
		var lost <-chan struct{}
		cs.mu.Lock()
		l, wanted := cs.link, len(cs.all) > 0 || len(cs.waiting) > 0
		cs.mu.Unlock()
		wait := time.Hour
		switch {
		case l != nil:
			lost, wait = l.lost, linkInterval
			if leader, ok := cs.r.log.Leader(); ok && leader.ID != l.leader {
				l.lose()
			}
		case wanted && again:
			wait, again = relinkWait, false
		case wanted:
			if l, err := cs.connect(ctx, &links); err == nil {
				cs.linked(l)
				continue
			} else if k := core.KindOf(err); k != core.NotLeader && k != core.Unavailable {
				cs.r.logger.Warn("consumers cannot reach the leader", "error", err)
			}
			wait = relinkWait
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			cs.unlinked(core.E(core.Closed, "this node is shutting down"), true)
			return
		case <-cs.wake:
		case <-lost:
			cs.unlinked(core.E(core.Uncertain, "the connection to the leader was lost"), false)
			again = true
		case <-timer.C:
		}
	}
}

// linked attaches everybody over a new link.
func (cs *consumers) linked(l *link) {
	cs.mu.Lock()
	cs.link = l
	all := slices.Collect(maps.Values(cs.all))
	waiting := cs.waiting
	cs.waiting = nil
	cs.mu.Unlock()
	slices.SortFunc(all, func(a, b *Consumer) int { return cmp.Compare(a.id, b.id) }) // as they came
	for _, c := range all {
		c.mu.Lock()
		if c.link == nil && !c.cancelled {
			c.attachLocked(l)
		}
		c.mu.Unlock()
	}
	for _, m := range waiting { // some may be about those consumers
		l.out.put(m)
	}
}

// unlinked forgets the link, and what was under way over it.
func (cs *consumers) unlinked(err error, last bool) {
	cs.mu.Lock()
	l := cs.link
	cs.link = nil
	cs.closed = cs.closed || last
	requests := cs.requests
	cs.requests, cs.waiting = map[uint64]func(fromHub){}, nil
	all := slices.Collect(maps.Values(cs.all))
	cs.mu.Unlock()
	if l != nil {
		l.lose()
	}
	for _, answered := range requests {
		answered(fromHub{err: err})
	}
	for _, c := range all {
		if last {
			c.answer(err)
			c.finish(err)
		} else {
			c.disconnected()
		}
	}
}

// connect opens a link to whoever leads.
func (cs *consumers) connect(ctx context.Context, links *sync.WaitGroup) (*link, error) {
	leader, ok := cs.r.log.Leader()
	if !ok {
		return nil, core.E(core.NotLeader, "there is no leader")
	}
	l := &link{leader: leader.ID, lost: make(chan struct{})}
	l.out.init()
	if leader.ID == cs.r.log.ID() {
		return l, cs.connectHere(ctx, l, links)
	}
	return l, cs.connectTo(ctx, l, links)
}

// connectHere links to this node's own dispatcher.
func (cs *consumers) connectHere(ctx context.Context, l *link, links *sync.WaitGroup) error {
	s := &hubSession{
		out:  func(m fromHub) { cs.receive(l, &m) },
		lost: func(error) { l.lose() },
	}
	if err := cs.r.hub.open(ctx, s); err != nil {
		return err
	}
	links.Go(func() {
		defer cs.r.hub.leave(s)
		for {
			ms, ok := l.out.take(ctx, l.lost)
			if !ok {
				return
			}
			for i := range ms {
				cs.r.hub.handle(s, &ms[i])
			}
		}
	})
	return nil
}

// connectTo links to another node's dispatcher.
func (cs *consumers) connectTo(ctx context.Context, l *link, links *sync.WaitGroup) error {
	ctx, cancel := context.WithCancel(ctx)
	s, err := cs.r.log.OpenStream(ctx, l.leader, consumeService)
	if err != nil {
		cancel()
		return err
	}
	links.Go(func() {
		defer cancel()
		defer l.lose()
		var frame []byte
		for {
			ms, ok := l.out.take(ctx, l.lost)
			if !ok {
				return
			}
			err := sendFrames(s, &frame, len(ms), func(i int, b []byte) []byte { return ms[i].append(b) })
			if err != nil {
				return
			}
		}
	})
	links.Go(func() {
		defer l.lose()
		for {
			frame, err := s.Recv()
			if err != nil {
				return
			}
			for r := wire.NewReader(frame); r.Len() > 0; {
				m, err := readFromHub(&r)
				if err != nil {
					cs.r.logger.Error("a message of the leader's dispatcher cannot be read", "error", err)
					cancel()
					return
				}
				cs.receive(l, &m)
			}
		}
	})
	return nil
}

// receive takes a message from the dispatcher. It does not block.
func (cs *consumers) receive(l *link, m *fromHub) {
	cs.mu.Lock()
	c := cs.all[m.consumer]
	var answered func(fromHub)
	answer := m.kind == hubAnswer || m.kind == hubGot
	if answer {
		answered = cs.requests[m.request]
		delete(cs.requests, m.request)
	}
	cs.mu.Unlock()
	switch {
	case answered != nil:
		answered(*m)
	case c == nil || answer:
	case m.kind == hubDeliver:
		c.receive(l, m.deliveries)
	case m.kind == hubAttached:
		c.answer(m.err)
	case m.kind == hubEnded:
		c.finish(m.err)
	}
}

// serveConsumers serves the consumers of another node. Its goroutines end with the stream,
// which ends when it returns.
func (r *Router) serveConsumers(_ string, stream core.Stream) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	var out outbox[fromHub]
	out.init()
	s := &hubSession{out: out.put, lost: func(err error) { cancel(err) }}
	if err := r.hub.open(ctx, s); err != nil {
		cancel(nil)
		return err
	}
	defer r.hub.leave(s)
	defer cancel(nil)
	go func() {
		var frame []byte
		for {
			ms, ok := out.take(ctx, nil)
			if !ok {
				return
			}
			if err := sendFrames(stream, &frame, len(ms), func(i int, b []byte) []byte { return ms[i].append(b) }); err != nil {
				cancel(err)
				return
			}
		}
	}()
	frames := make(chan []byte)
	go func() {
		for {
			frame, err := stream.Recv()
			if err != nil {
				cancel(err)
				return
			}
			select {
			case frames <- frame:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); err != io.EOF { //nolint:errorlint // Recv's own
				return err
			}
			return nil
		case frame := <-frames:
			for rd := wire.NewReader(frame); rd.Len() > 0; {
				m, err := readToHub(&rd)
				if err != nil {
					return err
				}
				r.hub.handle(s, &m)
			}
		}
	}
}

// sendFrames sends n messages in as few frames as they fit in.
func sendFrames(s core.Stream, buf *[]byte, n int, encode func(int, []byte) []byte) error {
	frame := (*buf)[:0]
	for i := range n {
		frame = encode(i, frame)
		if len(frame) >= maxFrame || i == n-1 {
			if err := s.Send(frame); err != nil {
				return err
			}
			frame = frame[:0]
		}
	}
	*buf = frame
	return nil
}

// outbox is a queue of messages that one goroutine takes out, many at a time. What is in it
// is bounded by what it is about: credit, and deliveries.
type outbox[M any] struct {
	wake chan struct{}

	mu sync.Mutex
	ms []M // guarded by mu
}

func (o *outbox[M]) init() { o.wake = make(chan struct{}, 1) }

func (o *outbox[M]) put(m M) {
	o.mu.Lock()
	o.ms = append(o.ms, m)
	first := len(o.ms) == 1
	o.mu.Unlock()
	if first {
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
}

// take waits for messages; false when ctx or lost ends the wait.
func (o *outbox[M]) take(ctx context.Context, lost <-chan struct{}) ([]M, bool) {
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-lost:
			return nil, false
		case <-o.wake:
		}
		o.mu.Lock()
		ms := o.ms
		o.ms = nil
		o.mu.Unlock()
		if len(ms) > 0 {
			return ms, true
		}
	}
}
