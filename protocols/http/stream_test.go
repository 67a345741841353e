package httpd

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"
)

// eventsOf is a stream of events.
type eventsOf struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Scanner
	last string // the last event's id
}

func (s *site) events(path string, headers ...string) *eventsOf {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.addr+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := s.client.Do(req) //nolint:bodyclose // the stream is the body
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	e := &eventsOf{t: s.t, body: res.Body, in: bufio.NewScanner(res.Body)}
	s.t.Cleanup(e.close)
	return e
}

func (e *eventsOf) close() { _ = e.body.Close() }

// next is the next event's value.
func (e *eventsOf) next() string {
	e.t.Helper()
	for e.in.Scan() {
		line := e.in.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			e.last = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var m struct{ Value string }
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				e.t.Fatalf("%s: %v", data, err)
			}
			return m.Value
		}
	}
	e.t.Fatalf("the stream ended: %v", e.in.Err())
	return ""
}

func (e *eventsOf) several(n int) (all []string) {
	e.t.Helper()
	for range n {
		all = append(all, e.next())
	}
	return all
}

// A stream has what is there from its place on, then what comes; and goes on where it was, on
// any node.
func TestEvents(t *testing.T) {
	s := newSite(t, nil, nil)
	other := newSite(t, s, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 2}`).want(t, 201)
	put := func(key string, values ...string) {
		t.Helper()
		for _, v := range values {
			s.do("POST", "/v1/topics/t/messages", v, "X-Partition: "+key).want(t, 200)
		}
	}
	put("0", "a", "b")
	put("1", "x")
	tail := s.events("/v1/topics/t/stream")
	all := s.events("/v1/topics/t/stream?from=start")
	got := all.several(3)
	slices.Sort(got)
	if !slices.Equal(got, []string{"a", "b", "x"}) {
		t.Fatal(got)
	}
	put("1", "y")
	if v := tail.next(); v != "y" {
		t.Fatalf("the tail has %q", v)
	}
	if v := all.next(); v != "y" {
		t.Fatal(v)
	}
	tail.close()
	put("0", "c")
	put("1", "z")
	again := other.events("/v1/topics/t/stream", "Last-Event-ID: "+all.last)
	got = again.several(2)
	slices.Sort(got)
	if !slices.Equal(got, []string{"c", "z"}) {
		t.Fatal(got)
	}
	if got := s.events("/v1/topics/t/stream?partition=0&offset=1").several(2); !slices.Equal(got, []string{"b", "c"}) {
		t.Fatal(got)
	}
	if got := s.events("/v1/topics/t/stream?partition=1&from=1").several(3); !slices.Equal(got, []string{"x", "y", "z"}) {
		t.Fatal(got)
	}
	s.do("GET", "/v1/topics/t/stream?offset=1", "").want(t, 400, "partition")
	s.do("GET", "/v1/topics/t/stream?from=never", "").want(t, 400, "from")
	s.do("GET", "/v1/topics/t/stream?lastEventId=x", "").want(t, 400, "Last-Event-ID")
	s.do("GET", "/v1/topics/none/stream", "").want(t, 404)

	// A topic that goes ends its streams with an event that says so.
	s.do("DELETE", "/v1/topics/t", "").want(t, 204)
	rest, err := io.ReadAll(all.body)
	for all.in.Scan() {
		rest = append(rest, all.in.Bytes()...)
	}
	if err != nil || !strings.Contains(string(rest), `"code":"not_found"`) {
		t.Fatalf("%s, %v", rest, err)
	}
}

// Who goes on in a topic that was made anew under its name gets all of it.
func TestEventsOfANewTopic(t *testing.T) {
	s := newSite(t, nil, nil)
	made := func(values ...string) {
		t.Helper()
		s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
		for _, v := range values {
			s.do("POST", "/v1/topics/t/messages", v).want(t, 200)
		}
	}
	made("a", "b", "c")
	before := s.events("/v1/topics/t/stream?from=start")
	before.several(3)
	s.do("DELETE", "/v1/topics/t", "").want(t, 204)
	made("d", "e")
	again := s.events("/v1/topics/t/stream", "Last-Event-ID: "+before.last)
	if got := again.several(2); !slices.Equal(got, []string{"d", "e"}) {
		t.Fatal(got)
	}
	s.do("POST", "/v1/topics/t/messages", "f").want(t, 200)
	// The form of before: version byte, count, offsets.
	if v := s.events("/v1/topics/t/stream", "Last-Event-ID: "+base64.RawURLEncoding.EncodeToString([]byte{1, 1, 2})).next(); v != "f" {
		t.Fatal(v)
	}
}

// What a reader does not take waits in the log, and is sent in its turn.
func TestEventsAreReadFromTheLog(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/t", `{"partitions": 1}`).want(t, 201)
	slow := s.events("/v1/topics/t/stream?from=start")
	var want []string
	for i := range 30 {
		v := fmt.Sprintf("%d:%s", i, strings.Repeat("x", 400_000))
		want = append(want, v[:3])
		s.do("POST", "/v1/topics/t/messages", v).want(t, 200)
	}
	slow.in.Buffer(nil, 1<<20)
	for _, w := range want { // 12 MB: more than any buffer between us
		if v := slow.next(); v[:3] != w {
			t.Fatalf("%s, want %s", v[:3], w)
		}
	}
}

// wsOf is a WebSocket.
type wsOf struct {
	*websocket.Conn
	t *testing.T
}

func (s *site) socket(path string) wsOf {
	s.t.Helper()
	c, res, err := websocket.DefaultDialer.DialContext(s.t.Context(), "ws://"+s.addr+path+"/ws", nil)
	if err != nil {
		s.t.Fatalf("%v: %+v", err, res)
	}
	_ = res.Body.Close()
	s.t.Cleanup(func() { _ = c.Close() })
	return wsOf{c, s.t}
}

type frameRead struct {
	ID      json.RawMessage
	Message *struct {
		Receipt, Value string
		DeliveryCount  int
	}
	Results []struct {
		Status int
		Code   string
	}
	Error *struct{ Code, Detail string }
}

func (w wsOf) say(frame string) {
	w.t.Helper()
	if err := w.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		w.t.Fatal(err)
	}
}

func (w wsOf) hear() (f frameRead) {
	w.t.Helper()
	_ = w.SetReadDeadline(time.Now().Add(30 * time.Second))
	if err := w.ReadJSON(&f); err != nil {
		w.t.Fatal(err)
	}
	return f
}

// message is the next frame, which has to be a message of a value.
func (w wsOf) message(value string) (receipt string, count int) {
	w.t.Helper()
	f := w.hear()
	if f.Message == nil || f.Message.Value != value {
		w.t.Fatalf("%+v, error %+v, want message %s", f, f.Error, value)
	}
	return f.Message.Receipt, f.Message.DeliveryCount
}

// A WebSocket gets as many messages as it wants, and says what became of them.
func TestSocket(t *testing.T) {
	s := subscribed(t, 1, "")
	s.publish("1", "2", "3")
	w := s.socket(sub)
	w.say(`{"credit": 1}`)
	one, _ := w.message("1")
	w.say(fmt.Sprintf(`{"id": 7, "ack": [%q, "nonsense"]}`, one)) // no message comes before the results: there is no credit
	if f := w.hear(); string(f.ID) != "7" || len(f.Results) != 2 || f.Results[0].Status != 200 || f.Results[1].Code != "bad_receipt" {
		t.Fatalf("%+v", f)
	}
	w.say(`{"credit": 1}`)
	two, count := w.message("2")
	if count != 1 {
		t.Fatalf("delivery %d", count)
	}
	w.say(fmt.Sprintf(`{"nack": [%q], "delayMs": 0, "credit": 2}`, two))
	var got []string
	for len(got) < 3 {
		switch f := w.hear(); {
		case f.Message != nil:
			got = append(got, fmt.Sprint(f.Message.Value, "/", f.Message.DeliveryCount))
		case len(f.Results) == 1:
			got = append(got, "nacked")
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"2/2", "3/1", "nacked"}) {
		t.Fatal(got)
	}

	// What a connection holds when it ends goes to others, and counts as no failure.
	_ = w.Close()
	again := s.socket(sub)
	again.say(`{"credit": 10}`)
	got = nil
	for range 2 {
		f := again.hear()
		if f.Message == nil {
			t.Fatalf("%+v", f)
		}
		got = append(got, fmt.Sprint(f.Message.Value, "/", f.Message.DeliveryCount))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"2/2", "3/1"}) {
		t.Fatal(got)
	}
}

// On a node that does not lead, over a queue.
func TestSocketOfQueueOnAnyNode(t *testing.T) {
	s := newSite(t, nil, nil)
	other := newSite(t, s, nil)
	s.do("PUT", "/v1/queues/q", "").want(t, 201)
	w := other.socket("/v1/queues/q")
	w.say(`{"credit": 5}`)
	s.do("POST", "/v1/queues/q/messages", "a").want(t, 200)
	receipt, _ := w.message("a")
	w.say(fmt.Sprintf(`{"ack": [%q]}`, receipt))
	if f := w.hear(); len(f.Results) != 1 || f.Results[0].Status != 200 {
		t.Fatalf("%+v", f)
	}
	s.do("GET", "/v1/queues/q", "").want(t, 200, `"ready":0`)
}

// What a client says wrongly it is told, before the connection ends.
func TestBadFrames(t *testing.T) {
	s := subscribed(t, 1, "")
	for _, frame := range []string{`{"credit": -1}`, `{"credit": 10000}`, `{"credit": 9223372036854775807}`, `{"more": 1}`, `no JSON`, `[]`} {
		w := s.socket(sub)
		w.say(`{"credit": 1}`)
		w.say(frame)
		if f := w.hear(); f.Error == nil || f.Error.Code != "invalid" {
			t.Errorf("%s: %+v", frame, f)
		}
		if _, _, err := w.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseUnsupportedData) {
			t.Errorf("%s: %v", frame, err)
		}
	}
	s.do("GET", sub+"/ws", "").want(t, 426)
	s.do("GET", "/v1/subscriptions/none/ws", "").want(t, 404)
	s.do("GET", sub+"/ws", "", "Origin: https://evil.example").want(t, 403)
}

// What counts as a stream is one that is there: neither those that have ended, nor those whose connection ended before
// fasthttp gave it away.
func TestStreamsAreCounted(t *testing.T) {
	s := subscribed(t, 1, "")
	a := s.server.api.Load()
	never := call{RequestCtx: &fasthttp.RequestCtx{}, api: a}
	if err := never.stream(func(*call, net.Conn) { t.Error("it was never given away") }); err != nil {
		t.Fatal(err)
	}
	if n := a.streams.Load(); n != 0 {
		t.Fatalf("%d streams, and none has begun", n)
	}
	e := s.events("/v1/topics/t/stream")
	w := s.socket(sub)
	w.say(`{"credit": 1}`)
	s.publish("1")
	w.message("1")
	if v := e.next(); v != "1" || a.streams.Load() != 2 {
		t.Fatalf("%q, %d streams", v, a.streams.Load())
	}
	e.close()
	_ = w.Close()
	s.server.CloseAPI() // waits for what streams do
	if n := a.streams.Load(); n != 0 {
		t.Fatalf("%d streams, and all have ended", n)
	}
}

// Streams do not hold up the end of the data plane.
func TestStreamsEndWithTheServer(t *testing.T) {
	s := subscribed(t, 1, "")
	e := s.events("/v1/topics/t/stream")
	w := s.socket(sub)
	w.say(`{"credit": 1}`)
	s.publish("1")
	w.message("1")
	if v := e.next(); v != "1" {
		t.Fatal(v)
	}
	s.server.CloseAPI()
	if f := w.hear(); f.Error == nil || f.Error.Code != "shutting_down" {
		t.Fatalf("%+v", f)
	}
	if _, err := io.ReadAll(e.body); err != nil {
		t.Fatal(err)
	}
}

// An open WebSocket does as its subscription says that was changed meanwhile, and keeps what it holds.
func TestSocketFollowsItsSubscription(t *testing.T) {
	s := subscribed(t, 1, "")
	w := s.socket(sub)
	w.say(`{"credit": 100}`)
	s.publish("1")
	held, _ := w.message("1")
	s.do("PATCH", "/v1/topics/t", `{"partitions": 3}`).want(t, 200)
	s.do("POST", "/v1/topics/t/messages", "new", "X-Partition: 2").want(t, 200)
	w.message("new")
	w.say(fmt.Sprintf(`{"ack": [%q]}`, held))
	if f := w.hear(); len(f.Results) != 1 || f.Results[0].Status != 200 {
		t.Fatalf("what it held is no more its own: %+v", f)
	}
	s.post(sub+":seek", `{"offsets": {"2": 0}}`).want(t, 204)
	w.message("new")

	s.do("PUT", sub, `{"topic": "t", "push": {"url": "http://127.0.0.1:9/"}}`).want(t, 200)
	if f := w.hear(); f.Error == nil || f.Error.Code != "conflict" {
		t.Fatalf("%+v", f)
	}
}

// A write to a slow reader may take long, but not when the data plane is closed.
func TestLastWrite(t *testing.T) {
	if got := writeTime(16 << 20); got != writeWait+256*time.Second {
		t.Error(got)
	}
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer func() { _ = there.Close() }()
		c := &taken{Conn: here, below: here}
		began := time.Now()
		for range 2 {
			_ = c.SetWriteDeadline(time.Now().Add(writeTime(16 << 20)))
			time.AfterFunc(time.Second, c.hurry)
			if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != time.Second+lastWrite {
			t.Error(took)
		}
		_ = c.Close()
	})
}
