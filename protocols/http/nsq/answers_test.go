package nsq

import (
	"encoding/binary"
	"net/http"
	"os"
	"strings"
	"testing"
)

// framed is the body of a binary mpub: what it says there are, and the messages.
func framed(count int32, messages ...string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(count))
	for _, m := range messages {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(m))), m...)
	}
	return string(b)
}

// refused is the body of a refusal.
func refused(word string) string { return `{"message":"` + word + `"}` }

// reply is an answer: its status and its body.
type reply struct {
	status int
	body   string
}

// answers are nsqd's, to requests one after the other.
var answers = []struct {
	method, path, body string
	nsqd               reply
	ours               reply // where it is another one
	why                string
}{
	{"GET", "/ping", "", reply{200, "OK"}, reply{}, ""},
	{"POST", "/ping", "", reply{405, refused("METHOD_NOT_ALLOWED")}, reply{}, ""},
	{"GET", "/pub?topic=t", "", reply{405, refused("METHOD_NOT_ALLOWED")}, reply{}, ""},
	{"GET", "/nothing", "", reply{404, refused("NOT_FOUND")}, reply{}, ""},
	{"POST", "/", "", reply{404, refused("NOT_FOUND")}, reply{}, ""},

	{"POST", "/pub?topic=t", "hello", reply{200, "OK"}, reply{}, ""},
	{"POST", "/pub?topic=t&topic=u", "hello", reply{200, "OK"}, reply{}, ""},
	{"POST", "/pub?x=y&topic=t", "hello", reply{200, "OK"}, reply{}, ""},
	{"POST", "/pub?topic=t", "", reply{400, refused("MSG_EMPTY")}, reply{}, ""},
	{"POST", "/pub", "", reply{400, refused("MSG_EMPTY")}, reply{}, ""},
	{"POST", "/pub", "x", reply{400, refused("MISSING_ARG_TOPIC")}, reply{}, ""},
	{"POST", "/pub?topic=", "x", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/pub?topic=a+b", "x", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/pub?topic=a%2Fb", "x", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/pub?topic=a%23b", "x", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/pub?topic=%C3%A4", "x", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/pub?topic=" + strings.Repeat("n", 64), "x", reply{200, "OK"}, reply{}, ""},
	{"POST", "/pub?topic=" + strings.Repeat("n", 65), "x", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/pub?topic=%zz", "x", reply{400, refused("INVALID_REQUEST")}, reply{400, `{"message":"INVALID_REQUEST","detail":"invalid URL escape \"%zz\""}`}, "a detail"},
	{"POST", "/pub?topic=t;u", "x", reply{400, refused("INVALID_REQUEST")}, reply{400, `{"message":"INVALID_REQUEST","detail":"invalid semicolon separator in query"}`}, "a detail"},
	{"POST", "/pub?topic=e%23ephemeral", "x", reply{200, "OK"}, reply{400, `{"message":"INVALID_TOPIC","detail":"nothing here is ephemeral"}`}, "ephemeral"},
	{"POST", "/pub?topic=.", "x", reply{200, "OK"}, reply{400, refused("INVALID_TOPIC")}, "Kafka's clients cannot say it"},

	{"POST", "/pub?topic=t&defer=0", "x", reply{200, "OK"}, reply{}, ""},
	{"POST", "/pub?topic=t&defer=3600000", "x", reply{200, "OK"}, reply{}, ""},
	{"POST", "/pub?topic=t&defer=3600001", "x", reply{400, refused("INVALID_DEFER")}, reply{200, "OK"}, "nsqd's max-req-timeout"},
	{"POST", "/pub?topic=t&defer=-1", "x", reply{400, refused("INVALID_DEFER")}, reply{}, ""},
	{"POST", "/pub?topic=t&defer=1s", "x", reply{400, refused("INVALID_DEFER")}, reply{}, ""},
	{"POST", "/pub?topic=t&defer=", "x", reply{400, refused("INVALID_DEFER")}, reply{}, ""},
	{"POST", "/pub?topic=t&defer=9223372036854775807", "x", reply{400, refused("INVALID_DEFER")}, reply{}, ""},

	{"POST", "/mpub?topic=t", "one\ntwo\n\nthree", reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t", "", reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t", "\n\n", reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub", "one", reply{400, refused("MISSING_ARG_TOPIC")}, reply{}, ""},
	{"POST", "/mpub?topic=a+b", "one", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=0", "one", reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=false", "one", reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", framed(2, "one", "t\nwo"), reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=1", framed(1, "one"), reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=", framed(1, "one"), reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=yes", framed(1, "one"), reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", framed(1, "one", "behind"), reply{200, "OK"}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", "", reply{413, refused("BAD_BODY")}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", "abc", reply{413, refused("BAD_BODY")}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", framed(0), reply{413, refused("BAD_BODY")}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", framed(-1), reply{413, refused("BAD_BODY")}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", framed(2, "one"), reply{413, refused("BAD_MESSAGE")}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", framed(1, ""), reply{413, refused("BAD_MESSAGE")}, reply{}, ""},
	{"POST", "/mpub?topic=t&binary=true", framed(1, "one")[:9], reply{413, refused("BAD_MESSAGE")}, reply{}, ""},

	{"POST", "/topic/create", "", reply{400, refused("MISSING_ARG_TOPIC")}, reply{}, ""},
	{"POST", "/topic/create?topic=a+b", "", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/topic/create?topic=made", "", reply{200, ""}, reply{}, ""},
	{"POST", "/topic/create?topic=made", "", reply{200, ""}, reply{}, ""},
	{"GET", "/topic/create?topic=made", "", reply{405, refused("METHOD_NOT_ALLOWED")}, reply{}, ""},
	{"POST", "/channel/create?topic=made&channel=c", "", reply{200, ""}, reply{}, ""},
	{"POST", "/channel/create?topic=made&channel=c", "", reply{200, ""}, reply{}, ""},
	{"POST", "/channel/create", "", reply{400, refused("MISSING_ARG_TOPIC")}, reply{}, ""},
	{"POST", "/channel/create?topic=made", "", reply{400, refused("MISSING_ARG_CHANNEL")}, reply{}, ""},
	{"POST", "/channel/create?topic=a+b&channel=c", "", reply{400, refused("INVALID_ARG_TOPIC")}, reply{}, ""},
	{"POST", "/channel/create?topic=made&channel=a+b", "", reply{400, refused("INVALID_ARG_CHANNEL")}, reply{}, ""},
	{"POST", "/channel/create?topic=none&channel=c", "", reply{404, refused("TOPIC_NOT_FOUND")}, reply{}, ""},
	{"POST", "/channel/empty?topic=made&channel=c", "", reply{200, ""}, reply{}, ""},
	{"POST", "/channel/empty?topic=made&channel=d", "", reply{404, refused("CHANNEL_NOT_FOUND")}, reply{}, ""},
	{"POST", "/channel/empty?topic=none&channel=c", "", reply{404, refused("TOPIC_NOT_FOUND")}, reply{}, ""},
	{"POST", "/channel/pause?topic=made&channel=c", "", reply{200, ""}, reply{501, `{"message":"NOT_IMPLEMENTED","detail":"only channels that are pushed can be paused"}`}, "consumers take what they want"},
	{"POST", "/topic/pause?topic=made", "", reply{200, ""}, reply{501, `{"message":"NOT_IMPLEMENTED","detail":"topics cannot be paused"}`}, "channels have messages at once"},
	{"POST", "/channel/pause?topic=made&channel=d", "", reply{404, refused("CHANNEL_NOT_FOUND")}, reply{}, ""},
	{"POST", "/channel/unpause?topic=made", "", reply{400, refused("MISSING_ARG_CHANNEL")}, reply{}, ""},
	{"POST", "/topic/unpause?topic=none", "", reply{404, refused("TOPIC_NOT_FOUND")}, reply{}, ""},
	{"POST", "/channel/delete?topic=made&channel=d", "", reply{404, refused("CHANNEL_NOT_FOUND")}, reply{}, ""},
	{"POST", "/channel/delete?topic=made&channel=c", "", reply{200, ""}, reply{}, ""},
	{"POST", "/channel/delete?topic=made&channel=c", "", reply{404, refused("CHANNEL_NOT_FOUND")}, reply{}, ""},
	{"POST", "/topic/empty", "", reply{400, refused("MISSING_ARG_TOPIC")}, reply{}, ""},
	{"POST", "/topic/empty?topic=a+b", "", reply{400, refused("INVALID_TOPIC")}, reply{}, ""},
	{"POST", "/topic/empty?topic=none", "", reply{404, refused("TOPIC_NOT_FOUND")}, reply{}, ""},
	{"POST", "/topic/empty?topic=made", "", reply{200, ""}, reply{}, ""},
	{"POST", "/topic/delete", "", reply{400, refused("MISSING_ARG_TOPIC")}, reply{}, ""},
	{"POST", "/topic/delete?topic=a+b", "", reply{404, refused("TOPIC_NOT_FOUND")}, reply{}, ""},
	{"POST", "/topic/delete?topic=made", "", reply{200, ""}, reply{}, ""},
	{"POST", "/topic/delete?topic=made", "", reply{404, refused("TOPIC_NOT_FOUND")}, reply{}, ""},
}

// TestAnswers compares our answers with nsqd's. With NSQD=http://… it asks an empty nsqd whether they are.
func TestAnswers(t *testing.T) {
	url, original := os.LookupEnv("NSQD")
	defer http.DefaultClient.CloseIdleConnections()
	if !original {
		f := start(t, nil)
		url = f.url
	}
	for _, a := range answers {
		want := a.nsqd
		if !original && a.why != "" {
			want = a.ours
		}
		status, header, body := request(t, a.method, url+a.path, a.body, nil)
		if got := (reply{status, body}); got != want {
			t.Errorf("%s %s %q: %v, want %v", a.method, a.path, a.body, got, want)
		}
		checkHeaders(t, header, a.path, body)
	}
}

// checkHeaders looks for those by which clients know what they got.
func checkHeaders(t *testing.T, header http.Header, path, body string) {
	t.Helper()
	want := "text/plain; charset=utf-8"
	switch {
	case body == "":
		want = ""
	case body[0] == '{':
		want = "application/json; charset=utf-8"
	}
	if got := header.Get("Content-Type"); got != want {
		t.Errorf("%s: content type %q, want %q", path, got, want)
	}
	if got := header.Get("X-Nsq-Content-Type"); got != "nsq; version=1.0" && path != "/ping" {
		t.Errorf("%s: X-NSQ-Content-Type %q", path, got)
	}
}
