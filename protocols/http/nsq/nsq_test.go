package nsq

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
	"polylog/router/routertest"
)

// TestMessages: what is published is in the topic, byte for byte and in order.
func TestMessages(t *testing.T) {
	f := start(t, nil)
	f.do(200, "OK", "POST", "/pub?topic=t", "one\nand \x00\xff")
	f.do(200, "OK", "POST", "/mpub?topic=t", "two\r\n\nthree")
	f.do(200, "OK", "POST", "/mpub?topic=t&binary=true", framed(2, "fo\nur", "five"))
	want := []string{"one\nand \x00\xff", "two\r", "three", "fo\nur", "five"}
	if got := f.stored("t"); !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

// TestTogether: the messages of one request stay in order, also where they make several batches
// and there are several partitions.
func TestTogether(t *testing.T) {
	f := start(t, nil)
	topic := routertest.Topic(t, f.router, "t", 3, map[string]string{"max.message.bytes": "1024"})
	var lines []string
	for _, c := range "abcdefgh" {
		lines = append(lines, strings.Repeat(string(c), 400))
	}
	f.do(200, "OK", "POST", "/mpub?topic=t", strings.Join(lines, "\n"))
	f.do(200, "OK", "POST", "/pub?topic=t", "elsewhere")
	if got := f.stored("t"); len(got) != len(lines)+1 {
		t.Fatalf("%d messages", len(got))
	}
	for _, q := range topic.Partitions {
		h, err := f.router.Head(q)
		if err != nil {
			t.Fatal(err)
		}
		if n := int(h.End); n != 0 && n != 1 && n != len(lines) {
			t.Errorf("a partition has %d messages", n)
		}
	}
	if got := f.stored("t"); !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return s == "elsewhere" }), lines) {
		t.Errorf("stored %q", got)
	}
}

// TestTooLarge: a message or a body that is too large is refused, and nothing of it is stored.
func TestTooLarge(t *testing.T) {
	f := start(t, nil)
	routertest.Topic(t, f.router, "small", 1, map[string]string{"max.message.bytes": "1024"})
	big := strings.Repeat("x", 1024)
	huge := strings.Repeat("x\n", maxBody)
	for path, bodies := range map[string][]struct{ body, word string }{
		"/pub?topic=small":              {{big, "MSG_TOO_BIG"}, {huge, "MSG_TOO_BIG"}},
		"/mpub?topic=small":             {{"fits\n" + big, "MSG_TOO_BIG"}, {huge, "BODY_TOO_BIG"}},
		"/mpub?topic=small&binary=true": {{framed(2, "fits", big), "MSG_TOO_BIG"}, {huge, "BODY_TOO_BIG"}},
	} {
		for _, b := range bodies {
			status, _, got := request(t, "POST", f.url+path, b.body, nil)
			if status != http.StatusRequestEntityTooLarge || !strings.HasPrefix(got, `{"message":"`+b.word+`"`) {
				t.Errorf("%s, %d bytes: %d %s, want 413 %s", path, len(b.body), status, got, b.word)
			}
		}
	}
	if got := f.stored("small"); len(got) > 0 {
		t.Errorf("stored %q", got)
	}
}

// TestTooMany: the messages of a body are bounded, whatever it says them in.
func TestTooMany(t *testing.T) {
	framed := func(n int) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), strings.Repeat("\x00\x00\x00\x01x", n)...)
	}
	for name, split := range map[string]func(n int) ([][]byte, error){
		"lines":  func(n int) ([][]byte, error) { return lines([]byte(strings.Repeat("\nx\n", n))) },
		"frames": func(n int) ([][]byte, error) { return frames(framed(n)) },
	} {
		if all, err := split(maxMessages); err != nil || len(all) != maxMessages {
			t.Errorf("%s: %d, %v", name, len(all), err)
		}
		if _, err := split(maxMessages + 1); err != error(errMessages) { //nolint:errorlint // as it is
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefused: what nsqd does not know, with a word and a detail.
func TestRefused(t *testing.T) {
	f := start(t, nil)
	routertest.Topic(t, f.router, "compacted", 1, map[string]string{"cleanup.policy": "compact"})
	status, _, got := request(t, "POST", f.url+"/pub?topic=compacted", "x", nil)
	if status != http.StatusBadRequest || !strings.Contains(got, "INVALID_REQUEST") || !strings.Contains(got, "without a key") {
		t.Errorf("compacted: %d %s", status, got)
	}
	routertest.Topic(t, f.router, "a.b", 1, nil)
	status, _, got = request(t, "POST", f.url+"/pub?topic=a_b", "x", nil)
	if status != http.StatusBadRequest || !strings.Contains(got, "INVALID_TOPIC") || !strings.Contains(got, "a.b") {
		t.Errorf("a name that collides: %d %s", status, got)
	}
	if err := f.router.AlterBrokerConfig(t.Context(), router.Principal{}, []router.ConfigChange{{Key: "auto.create.topics.enable", Value: "false"}}, false, false); err != nil {
		t.Fatal(err)
	}
	status, _, got = request(t, "POST", f.url+"/pub?topic=unknown", "x", nil)
	if status != http.StatusNotFound || !strings.Contains(got, "TOPIC_NOT_FOUND") {
		t.Errorf("without auto-creation: %d %s", status, got)
	}
	status, _, got = request(t, "POST", f.url+"/pub?topic=compacted", "x", func(r *http.Request) { r.Header.Set("Origin", "http://elsewhere.example") })
	if status != http.StatusForbidden {
		t.Errorf("a page of another site: %d %s", status, got)
	}
	f.log.Refuse(core.E(core.Unavailable, "no leader"))
	status, _, got = request(t, "POST", f.url+"/pub?topic=a.b", "x", nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(got, "UNAVAILABLE") {
		t.Errorf("without a leader: %d %s", status, got)
	}
}

// TestDefer: a deferred message says when it is to be delivered, which consumers wait for.
func TestDefer(t *testing.T) {
	f := start(t, nil)
	f.do(200, "OK", "POST", "/pub?topic=t&defer=90000", "later")
	f.do(200, "OK", "POST", "/pub?topic=t&defer=0", "now")
	topic, _ := f.router.Topic(core.TopicName("t"))
	var at []int64
	if _, err := f.router.Browse(router.Principal{}, topic.Partitions[0], 0, 2, 1000, func(b router.Browsed) bool {
		m := message.Read(&b.Record)
		at = append(at, m.DeliverAt)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if want := f.clock.Now().Add(90 * time.Second).UnixMilli(); !slices.Equal(at, []int64{want, 0}) {
		t.Errorf("delivered at %v, want %d and 0", at, want)
	}
}

// ready is how many messages a channel has for its consumers.
func (f *fixture) ready(topic, channel string) (n int64) {
	f.t.Helper()
	s, err := f.router.Subscription(f.t.Context(), channelName(core.TopicName(topic), channel))
	if err != nil {
		f.t.Fatal(err)
	}
	t, _ := f.router.TopicByID(s.Topic)
	for _, q := range t.Partitions {
		counts, err := f.router.CountQueue(f.t.Context(), q, s.Group)
		if err != nil {
			f.t.Fatal(err)
		}
		n += counts.Ready
	}
	return n
}

// TestChannels: the first one gets what its topic has, another one what comes after it; one that is emptied
// or begins again has nothing.
func TestChannels(t *testing.T) {
	f := start(t, nil)
	f.do(200, "OK", "POST", "/mpub?topic=t", "1\n2\n3")
	f.do(200, "", "POST", "/channel/create?topic=t&channel=first", "")
	f.do(200, "", "POST", "/channel/create?topic=t&channel=second", "")
	f.do(200, "OK", "POST", "/pub?topic=t", "4")
	f.do(200, "", "POST", "/channel/create?topic=t&channel=second", "") // it is there
	want := func(channel string, n int64) {
		t.Helper()
		if got := f.ready("t", channel); got != n {
			t.Errorf("channel %s has %d messages, want %d", channel, got, n)
		}
	}
	want("first", 4)
	want("second", 1)
	f.do(200, "", "POST", "/topic/empty?topic=t", "") // all of it is the channels'
	want("first", 4)
	f.do(200, "", "POST", "/channel/empty?topic=t&channel=first", "")
	want("first", 0)
	f.do(200, "OK", "POST", "/pub?topic=t", "5")
	want("first", 1)
	want("second", 2)
	f.do(200, "", "POST", "/channel/delete?topic=t&channel=first", "")
	f.do(200, "", "POST", "/channel/delete?topic=t&channel=second", "")
	f.do(200, "", "POST", "/topic/empty?topic=t", "")
	if got := f.stored("t"); len(got) > 0 {
		t.Errorf("an emptied topic has %q", got)
	}
}

// TestDeletedTopic: its channels go with it, and what a topic that was deleted elsewhere has left behind
// is in nobody's way.
func TestDeletedTopic(t *testing.T) {
	f := start(t, nil)
	for _, channel := range []string{"a", "b"} {
		f.do(200, "", "POST", "/topic/create?topic=t", "")
		f.do(200, "", "POST", "/channel/create?topic=t&channel="+channel, "")
	}
	f.do(200, "", "POST", "/topic/create?topic=t2", "")
	f.do(200, "", "POST", "/channel/create?topic=t2&channel=a", "")
	f.do(200, "", "POST", "/topic/delete?topic=t", "")
	left, err := f.router.Subscriptions(core.DefaultNamespace, "", 10)
	if err != nil || len(left) != 1 || left[0].Name.Name != "t2:a" {
		t.Fatalf("left are %v, %v", left, err)
	}
	if err := f.router.DeleteTopic(t.Context(), router.Principal{}, core.TopicName("t2")); err != nil {
		t.Fatal(err)
	}
	f.do(200, "OK", "POST", "/mpub?topic=t2", "1\n2")
	f.do(404, refused("CHANNEL_NOT_FOUND"), "POST", "/channel/empty?topic=t2&channel=a", "")
	f.do(200, "", "POST", "/channel/create?topic=t2&channel=a", "")
	if got := f.ready("t2", "a"); got != 2 {
		t.Errorf("the channel that was made anew has %d messages, want 2", got)
	}
}

// TestInfo: what clients look at before they publish.
func TestInfo(t *testing.T) {
	var reasons []string
	f := start(t, func(o *Options) { o.Ready = func() []string { return reasons } })
	_, _, got := request(t, "GET", f.url+"/info", "", nil)
	for _, part := range []string{`"version":"1.3.0"`, `"http_port":`, `"tcp_port":-1`, `"start_time":1767225600`, `"product_version":"1.2.3"`} {
		if !strings.Contains(got, part) {
			t.Errorf("info has no %s: %s", part, got)
		}
	}
	reasons = []string{"no leader", "no room"}
	f.do(500, "NOK - no leader; no room", "GET", "/ping", "")
}

// TestUsers: once there are users a call needs one, and may what that one may.
func TestUsers(t *testing.T) {
	f := start(t, nil)
	routertest.AddUser(t, f.router, "admin", router.TagAdministrator)
	routertest.AddUser(t, f.router, "dev")
	routertest.Grant(t, f.router, "dev", "^d", "^d", "^d")
	f.do(200, "OK", "GET", "/ping", "")
	want := func(code int, user, path, word string) {
		t.Helper()
		status, header, got := request(t, "POST", f.url+path, "x", func(r *http.Request) {
			if user != "" {
				r.SetBasicAuth(user, "pw-"+user)
			}
		})
		if status != code || !strings.Contains(got, word) {
			t.Errorf("%s as %q: %d %s, want %d %s", path, user, status, got, code, word)
		}
		if asked := header.Get("WWW-Authenticate") != ""; asked != (code == http.StatusUnauthorized) {
			t.Errorf("%s as %q: asked for credentials: %t", path, user, asked)
		}
	}
	want(401, "", "/pub?topic=d", "AUTH_FAILED")
	want(401, "eve", "/pub?topic=d", "AUTH_FAILED")
	want(200, "dev", "/pub?topic=d", "OK")
	want(200, "dev", "/channel/create?topic=d&channel=c", "")
	for _, path := range []string{"/pub?topic=other", "/topic/create?topic=other", "/topic/delete?topic=other", "/topic/empty?topic=other", "/channel/create?topic=other&channel=c"} {
		want(403, "dev", path, "UNAUTHORIZED")
	}
	want(200, "dev", "/topic/delete?topic=d", "")
}

// FuzzFrames: whatever a binary body is, it is taken apart as it says or refused.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(framed(2, "one", "two")))
	f.Add([]byte(framed(1<<31-1, "one")))
	f.Add([]byte("\x00\x00\x00\x01\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := frames(body)
		if err != nil {
			if len(all) > 0 {
				t.Errorf("%d messages and %v", len(all), err)
			}
			return
		}
		again := make([]string, len(all))
		for i := range all {
			again[i] = string(all[i])
		}
		if got := framed(int32(len(all)), again...); !strings.HasPrefix(string(body), got) {
			t.Errorf("%q became %q", body, got)
		}
	})
}
