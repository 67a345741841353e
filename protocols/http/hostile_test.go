package httpd

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// raw sends bytes and returns the answers that come back until the connection is closed, or
// the first one where it stays open.
func (s *site) raw(request string) (status int, body string) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c, request)
	}()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatalf("%.80q: %v", request, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("%.80q: %v", request, err)
	}
	<-sent
	return res.StatusCode, string(b)
}

// What one reader takes for one path and another for another is refused.
func TestPathTricks(t *testing.T) {
	s := newSite(t, nil, nil)
	s.do("PUT", "/v1/topics/a", "").want(t, 201)
	s.do("PUT", "/v1/queues/a%3Apurge", "").want(t, 201, `"name":"a:purge"`)
	s.do("PUT", "/v1/queues/x%2Fy%20z%25", "").want(t, 201, `"name":"x/y z%"`)
	for path, want := range map[string]int{
		"/v1/topics/a":                           200,
		"/v1/topics/%61":                         200,
		"/v1/queues/a%3Apurge":                   200,
		"/v1/queues/x%2fy%20z%25":                200,
		"/v1/topics/a/":                          400,
		"/v1/topics//a":                          400,
		"/v1//topics/a":                          400,
		"/v1/topics/x/../a":                      400,
		"/v1/topics/%2e%2e/topics":               400,
		"/v1/topics/%2E":                         400,
		"/v1/topics/x/%2e%2e/a":                  400,
		"/v1/topics/a%00":                        400,
		"/v1/topics/a%0a":                        400,
		"/v1/topics/%ff":                         400,
		"/v1/topics/%zz":                         400,
		"/v1/topics/%":                           400,
		"/v1/topics/%2":                          400,
		"/v1/%74opics/a":                         404, // words are not encoded
		"/V1/topics/a":                           404,
		"/v1/Topics/a":                           404,
		"/v1/topics/%252e%252e":                  400, // decoded once: no topic can be called %2e%2e
		"/v1":                                    404,
		"/v1/":                                   400,
		"/v1/topics/a/configs/x":                 404,
		"/v1/namespaces/a/namespaces/b":          404,
		"/v1/..%2fhealth/live":                   404,
		"/health/../v1/topics/a":                 400,
		"/v1/topics/a:purge":                     400, // no such verb: a name that no topic has
		"/v1/topics/a?x=%zz":                     400, // an argument that it does not have
		"/v1/topics/a;x=1":                       400,
		"/v1/topics/" + strings.Repeat("a", 250): 400,
	} {
		request := "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
		if got, body := s.raw(request); got != want {
			t.Errorf("%.60s: %d, want %d: %s", path, got, want, body)
		}
	}
}

func TestHostileBodies(t *testing.T) {
	s := newSite(t, nil, func(o *Options) { o.MaxBody = 64 << 10 })
	const post = "POST /v1/topics/t/messages HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
	large := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"too large", fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", post, len(large), large), 413},
		{"too large in chunks", fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", post, len(large), large), 413},
		{"chunks", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200},
		{"a chunk's length is none", post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
		{"both lengths", post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 400},
		{"both lengths, the other way round", post + "Transfer-Encoding: chunked\r\ncontent-length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 400},
		{"two lengths", post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
		{"an unknown encoding", post + "Transfer-Encoding: gzip\r\n\r\nabc", 400},
		{"a body that a GET does not have", "GET /v1/topics HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 200},
		{"deep JSON", post + fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 60_000, strings.Repeat("[", 60_000)), 400},
		{"an announced body that is too large", post + "Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n", 413},
		{"a request after a refused one is not read", post + "Content-Length: 70000\r\n\r\n" + large[:70000] + "GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n", 413},
	} {
		if got, body := s.raw(c.request); got != c.status {
			t.Errorf("%s: %d, want %d: %s", c.name, got, c.status, body)
		}
	}
	if got := len(s.records("t", 0)); got != 1 {
		t.Errorf("%d messages are stored, want the one that was good", got)
	}
}

// The memory for bodies is shared; what does not fit is told to try again.
func TestBodyMemoryIsBounded(t *testing.T) {
	s := newSite(t, nil, func(o *Options) { o.MaxBody, o.BodyMemory = 128<<10, 128<<10 })
	others := s.server.front.Budget()
	if !others.Take(100 << 10) {
		t.Fatal("it is taken")
	}
	chunked := fmt.Sprintf("POST /v1/topics/t/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", 64<<10, strings.Repeat("x", 64<<10))
	if got, body := s.raw(chunked); got != 503 || !strings.Contains(body, `"retryable":true`) {
		t.Fatalf("%d %s", got, body)
	}
	others.Release()
	if got, body := s.raw(chunked); got != 200 {
		t.Fatalf("%d %s", got, body)
	}
	if !others.Take(128<<10 + 1) {
		t.Fatal("something is not given back")
	}
	others.Release()
}

// Whoever has not shown who he is keeps no memory from others: bodies for hooks are counted apart.
func TestStrangersHaveMemoryOfTheirOwn(t *testing.T) {
	s := newSite(t, nil, func(o *Options) { o.MaxBody, o.BodyMemory = 128<<10, 1<<20 })
	s.do("PUT", "/v1/hooks/h", `{"topic": "t", "preset": "github", "secrets": ["open sesame"], "maxBytes": 131072}`).want(t, 201)
	s.do("PUT", "/v1/hooks/known", `{"topic": "t", "preset": "bearer", "secrets": ["open sesame"], "maxBytes": 131072}`).want(t, 201)
	large := strings.Repeat("x", 100<<10)
	mac := hmac.New(sha256.New, []byte("open sesame"))
	mac.Write([]byte(large))
	signature := "X-Hub-Signature-256: sha256=" + hex.EncodeToString(mac.Sum(nil))
	hook := func() reply { return s.do("POST", "/hooks/h", large, signature) }
	strangers := s.server.front.StrangerBudget()
	if !strangers.Take(200 << 10) {
		t.Fatal("it is taken")
	}
	hook().want(t, 503, `"retryable":true`)
	s.do("POST", "/hooks/known", large, "Authorization: Bearer open sesame").want(t, 200)
	s.do("POST", "/v1/topics/t/messages", large).want(t, 200)
	strangers.Release()
	hook().want(t, 200)
}

// A body's memory is fasthttp's, which uses it again; messages must not change with it.
func TestBodiesAreCopied(t *testing.T) {
	s := newSite(t, nil, nil)
	for i := range 50 {
		s.do("POST", "/v1/topics/t/messages", strings.Repeat(string(rune('a'+i%26)), 100)).want(t, 200)
	}
	for i, r := range s.records("t", 0) {
		if want := strings.Repeat(string(rune('a'+i%26)), 100); string(r.Value) != want {
			t.Fatalf("message %d is %s", i, r.Value)
		}
	}
}

func FuzzPaths(f *testing.F) {
	for _, seed := range []string{"/v1/topics/a", "/v1/queues/%2e:purge", "//", "/v1/topics/a%", "/v1/namespaces/n/queues/a%3A:purge"} {
		f.Add(seed)
	}
	m := endpoints()
	f.Fuzz(func(t *testing.T, path string) {
		methods, ps, err := m.Find(path)
		if (err == nil) != (methods != nil) {
			t.Fatalf("%q: %v, %v", path, methods, err)
		}
		for _, p := range ps {
			if err == nil && (p.Value == "" || p.Value == "." || p.Value == ".." || strings.ContainsAny(p.Value, "\x00\n")) {
				t.Fatalf("%q has %s=%q", path, p.Name, p.Value)
			}
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"messages":[{"key":"k","value":1,"headers":{"a":[1,"b",null]},"ttlMs":5}]}`))
	f.Add([]byte(`{"messages":[{"keyBase64":"AA==","valueBase64":"","headers":[{"name":"a","valueBase64":"/w=="}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, read := range []func([]byte, int64) ([]incoming, error){fromJSON, fromNDJSON} {
			ms, err := read(body, 1)
			if err == nil && len(ms) == 0 {
				t.Fatal("neither messages nor an error")
			}
		}
	})
}

func FuzzCursors(f *testing.F) {
	f.Add("AQAAAQA")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := decodePosition(text)
		if err != nil {
			return
		}
		q, err := decodePosition(p.encode())
		if err != nil || p.partition != q.partition || p.offset != q.offset || len(p.ends) != len(q.ends) {
			t.Fatalf("%+v became %+v, %v", p, q, err)
		}
	})
}
