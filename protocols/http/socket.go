package httpd

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// A WebSocket delivers a subscription's or a queue's messages. The client says how many it
// wants, and what became of each; a delivery is its own until it says so or the connection ends.

// frameIn is what a client sends: one of its fields, with what belongs to it.
type frameIn struct {
	ID         json.RawMessage `json:"id"`     // comes back with the results
	Credit     int             `json:"credit"` // so many messages more
	Ack        []string        `json:"ack"`
	Nack       []string        `json:"nack"`
	DelayMs    *int64          `json:"delayMs"` // of nack, as with :nack
	DeadLetter bool            `json:"deadLetter"`
	Uncounted  bool            `json:"uncounted"`
}

// frameOut is what it gets: a message, results, or the reason why the connection ends.
type frameOut struct {
	Message *pulledJSON     `json:"message,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Results []resultJSON    `json:"results,omitempty"`
	Error   *problem        `json:"error,omitempty"`
}

const (
	maxCredit = 10_000 // messages that are owed to one connection
	maxFrame  = 1 << 20
	// lookEvery is how often a connection looks whether its subscription was changed.
	lookEvery = time.Second
	// pongWait is how long a client may say nothing, not even that it is there.
	pongWait = 3 * heartbeat
)

// openSocket makes a WebSocket of the request.
func openSocket(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	src, err := c.source()
	if err != nil {
		return err
	}
	req := &http.Request{Method: http.MethodGet, Header: http.Header{}, Host: string(c.Host())}
	for k, v := range c.Request.Header.All() {
		req.Header.Add(string(k), string(v))
	}
	if !c.IsGet() || !websocket.IsWebSocketUpgrade(req) || req.Header.Get("Sec-WebSocket-Key") == "" || req.Header.Get("Sec-WebSocket-Version") != "13" {
		c.Response.Header.Set("Upgrade", "websocket")
		return &problem{Status: 426, Code: "upgrade_required", Detail: "this path is for WebSockets of version 13"}
	}
	return c.stream(func(c *call, conn net.Conn) {
		up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }} // looked at before, as with every call
		ws, err := up.Upgrade(&hijacked{conn: conn}, req, nil)
		if err != nil {
			return
		}
		s := socket{puller: puller{call: c, src: src, spec: &pullSpec{}, wake: make(chan struct{}, 1)}, ws: ws, frames: make(chan frameIn), ended: make(chan struct{})}
		s.run()
	})
}

// hijacked gives the upgrader the connection that fasthttp gave up.
type hijacked struct{ conn net.Conn }

func (h *hijacked) Header() http.Header         { return http.Header{} }
func (h *hijacked) Write(b []byte) (int, error) { return len(b), nil }
func (h *hijacked) WriteHeader(int)             {}
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// socket is a WebSocket at work. One goroutine, run, writes; another one reads.
type socket struct {
	puller
	ws     *websocket.Conn
	frames chan frameIn
	ended  chan struct{} // run has returned
	credit int
}

func (s *socket) run() {
	read, reading := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(reading)
		read <- s.read()
	}()
	err := s.serve(read)
	if err != nil {
		p := *problemOf(err)
		p.Title = http.StatusText(p.Status)
		_ = s.write(&frameOut{Error: &p}) // it is closed in any case
	}
	_ = s.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(closeCode(err), ""), time.Now().Add(writeWait))
	close(s.ended)
	_ = s.ws.Close()
	s.close()
	<-reading
}

// closeCode is RFC 6455's, 7.4.1.
func closeCode(err error) int {
	switch core.KindOf(err) {
	case core.OK:
		return websocket.CloseNormalClosure
	case core.Closed:
		return websocket.CloseGoingAway
	case core.Invalid:
		return websocket.CloseUnsupportedData
	case core.Denied:
		return websocket.ClosePolicyViolation
	default:
		return websocket.CloseInternalServerErr
	}
}

// read hands frames over, until the connection ends.
func (s *socket) read() error {
	s.ws.SetReadLimit(maxFrame)
	alive := func(string) error { return s.ws.SetReadDeadline(time.Now().Add(pongWait)) }
	s.ws.SetPongHandler(alive)
	for {
		_ = alive("")
		_, b, err := s.ws.ReadMessage()
		if err != nil {
			return nil //nolint:nilerr // the client is gone, whatever the reason
		}
		var f frameIn
		if err := decodeJSON(b, &f); err != nil {
			return invalid("%v", err)
		}
		select {
		case s.frames <- f:
		case <-s.ended:
			return nil
		}
	}
}

// serve does what frames say and sends what comes. The error is what the client is to be told.
func (s *socket) serve(read <-chan error) error {
	ping := time.NewTicker(heartbeat)
	defer ping.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case f := <-s.frames:
			if err := s.frame(&f); err != nil {
				return err
			}
		case <-s.wake:
		case <-look.C:
			if _, err := s.follow(); err != nil {
				return err
			}
		case <-ping.C:
			if s.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeWait)) != nil {
				return nil
			}
		case err := <-read:
			return err
		case <-s.over:
			return errLoggedOut
		case <-s.api.gate.Context().Done():
			return errStreamsEnd
		}
		err := s.deliver()
		if core.KindOf(err) == core.NotFound { // another place in the topic is another group
			followed, gone := s.follow()
			switch {
			case gone != nil:
				err = gone // which says more
			case followed:
				s.notify()
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// frame does what a frame says.
func (s *socket) frame(f *frameIn) error {
	if f.Credit != 0 {
		if f.Credit < 0 || f.Credit > maxCredit-s.credit {
			return invalid("credit is %d beside %d that is owed, want 1 to %d in all", f.Credit, s.credit, maxCredit)
		}
		s.credit += f.Credit
	}
	for _, one := range []struct {
		receipts []string
		how      settling
	}{{f.Ack, acking}, {f.Nack, nacking}} {
		if len(one.receipts) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(s.api.gate.Context(), front.CallTimeout)
		spec := receiptsSpec{Receipts: one.receipts, DelayMs: f.DelayMs, DeadLetter: f.DeadLetter, Uncounted: f.Uncounted}
		results, err := s.settle(ctx, &spec, s.src, one.how)
		cancel()
		if err != nil {
			return err
		}
		if err := s.write(&frameOut{ID: f.ID, Results: results}); err != nil {
			return nil //nolint:nilerr // the reader notices
		}
	}
	return nil
}

// deliver sends what is there, as far as there is credit. What came for which there is none goes
// back at once, to others.
func (s *socket) deliver() error {
	if s.credit == 0 {
		return s.giveUp()
	}
	s.spec.Max = s.credit
	if s.parts == nil {
		ctx, cancel := context.WithTimeout(s.api.gate.Context(), front.CallTimeout)
		s.call.ctx = ctx
		err := s.consume()
		cancel()
		if err != nil {
			return err
		}
	}
	s.got, s.bytes = s.got[:0], 0
	if _, err := s.take(); err != nil {
		return err
	}
	for i := range s.got {
		if err := s.write(&frameOut{Message: s.jsonOf(&s.got[i])}); err != nil {
			return core.E(core.Closed, "the client takes nothing")
		}
		if s.api.gate.Context().Err() != nil {
			return errStreamsEnd
		}
	}
	s.credit -= len(s.got)
	if len(s.got) > 0 {
		s.notify()   // there may be more
		clear(s.got) // an idle connection keeps no messages
	}
	return nil
}

// follow has the connection do as its subscription says that was changed meanwhile: with another filter,
// from partitions that are new, or at another place. What it holds stays its own where that is possible.
// Without a change it does nothing, and says so.
func (s *socket) follow() (bool, error) {
	if s.src.changed == nil || !s.src.changed() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(s.api.gate.Context(), front.CallTimeout)
	defer cancel()
	s.call.ctx = ctx
	src, err := s.source()
	switch core.KindOf(err) {
	case core.OK:
	case core.NotFound, core.Conflict, core.Denied:
		return false, err
	default:
		return false, nil // the next look may find more
	}
	old := s.src
	s.src = src
	n := len(old.queues)
	switch {
	case src.group != old.group || len(src.queues) < n || !slices.Equal(src.queues[:n], old.queues):
		s.close()
		s.parts = nil // deliver begins anew
	case s.parts != nil && len(src.queues) > n:
		err = s.consume()
	}
	return true, err
}

// giveUp releases what came beyond the credit: each partition is asked for one message at least.
func (s *socket) giveUp() error {
	var ds []router.Delivery
	for i := range s.parts {
		part := &s.parts[i]
		if part.Consumer == nil || part.owed <= 0 {
			continue
		}
		var err error
		if ds, err = part.Take(ds[:0], part.owed); err != nil {
			return err
		}
		part.owed -= len(ds)
		for _, d := range ds {
			part.Settle(router.Release, 0, []router.Receipt{d.Receipt}, nil)
		}
	}
	return nil
}

func (s *socket) write(f *frameOut) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_ = s.ws.SetWriteDeadline(time.Now().Add(writeTime(len(b))))
	return s.ws.WriteMessage(websocket.TextMessage, b)
}
