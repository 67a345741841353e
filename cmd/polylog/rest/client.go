// Package rest is the command line's client of a broker's HTTP interface (docs/http.md): the
// one place where verbs speak HTTP. It knows several servers, any of which serves every call,
// and which calls can be sent again without being done twice.
package rest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DialTimeout bounds how long a connection to a server may take.
const DialTimeout = 5 * time.Second

// maxAnswer bounds an answer that is kept in memory, in bytes. A page of browsing has 4 MiB of
// values, whose text in JSON may be six times as long.
const maxAnswer = 64 << 20

// Client calls a broker. It is for one goroutine at a time; Clone makes others.
type Client struct {
	Servers   Servers
	Namespace string        // of what Path names; "": the default one
	Timeout   time.Duration // of one call, with all that is tried for it; 0: none
	Header    http.Header   // of every request, beside those of the call
	HTTP      *http.Client  // nil: one of its own

	at int // the server that answered last
}

// New is a client with connections of its own, which Close ends.
func New(s Servers) *Client {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: DialTimeout}).DialContext,
		MaxIdleConnsPerHost: 128,
		IdleConnTimeout:     30 * time.Second,
	}
	// A redirection would send a body, and what is secret in it, somewhere else.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{Servers: s, HTTP: &http.Client{Transport: t, CheckRedirect: stay}}
}

// LogIn has every request show a user and its password (RFC 7617).
func (c *Client) LogIn(user, password string) {
	if c.Header == nil {
		c.Header = http.Header{}
	}
	c.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// Clone is another client with the same connections, for another goroutine.
func (c *Client) Clone() *Client {
	d := *c
	return &d
}

// Close ends connections that are not in use.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// Body is what a call sends.
type Body struct {
	Type string // Content-Type
	Data []byte
}

// JSON is v as a body.
func JSON(v any) (*Body, error) {
	b, err := json.Marshal(v)
	return &Body{"application/json", b}, err
}

// Request is one call.
type Request struct {
	Method string // GET where it is empty
	Path   string // as Path makes it
	Query  url.Values
	Body   *Body
	Header http.Header
	// Again says that the call does no more when it is sent twice, beside GET and PUT, which
	// never do.
	Again bool
}

// Path is the path of an object below the client's namespace: a name of the interface and names
// of objects, which may have any characters, in turn.
func (c *Client) Path(parts ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	if c.Namespace != "" {
		b.WriteString("/namespaces/" + escape(c.Namespace))
	}
	for _, p := range parts {
		b.WriteString("/" + escape(p))
	}
	return b.String()
}

// escape is a part of a path. A colon would begin a verb.
func escape(part string) string { return strings.ReplaceAll(url.PathEscape(part), ":", "%3A") }

// Do calls and reads the answer's JSON into answer, unless that is nil. A refusal is a *Problem.
func (c *Client) Do(ctx context.Context, r Request, answer any) error {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no answer within %v", c.Timeout))
		defer cancel()
	}
	resp, err := c.Open(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	b, err := readAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", resp.Request.URL.Host, reason(ctx, err))
	}
	if answer == nil || len(b) == 0 {
		return nil
	}
	if raw, ok := answer.(*json.RawMessage); ok {
		*raw = b
		return nil
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("the answer of %s is not as expected; is it a Polylog of this version? %w", resp.Request.URL.Host, err)
	}
	return nil
}

// Get is Do with GET.
func (c *Client) Get(ctx context.Context, path string, query url.Values, answer any) error {
	return c.Do(ctx, Request{Path: path, Query: query}, answer)
}

// Send is Do with a body in JSON.
func (c *Client) Send(ctx context.Context, method, path string, body, answer any) error {
	b, err := JSON(body)
	if err != nil {
		return err
	}
	return c.Do(ctx, Request{Method: method, Path: path, Body: b}, answer)
}

// Delete is Do with DELETE.
func (c *Client) Delete(ctx context.Context, path string, query url.Values, answer any) error {
	return c.Do(ctx, Request{Method: http.MethodDelete, Path: path, Query: query}, answer)
}

// Open calls and leaves the answer's body to be read, and closed. Refusals are *Problem. A server that
// cannot be reached is passed over, and one that can do nothing now is asked again until the
// context ends.
func (c *Client) Open(ctx context.Context, r Request) (*http.Response, error) {
	var failed error
	for {
		later := false // whether it is worth asking again
		for i := range c.Servers {
			at := (c.at + i) % len(c.Servers)
			resp, err := c.try(ctx, c.Servers[at], r)
			if err == nil {
				c.at = at
				return resp, nil
			}
			failed = err
			var p *Problem
			switch {
			case ctx.Err() != nil:
				return nil, reason(ctx, err)
			case errors.As(err, &p):
				if p.Status != http.StatusServiceUnavailable || !p.Retryable {
					return nil, err // any other would say the same
				}
				later = true
			case !r.again() && !neverSent(err):
				return nil, fmt.Errorf("%w; it may be done, or not", err)
			}
		}
		if _, bounded := ctx.Deadline(); !later || !bounded {
			return nil, failed
		}
		select {
		case <-ctx.Done():
			return nil, failed
		case <-time.After(pause):
		}
	}
}

// pause is between two rounds of asking all servers.
const pause = 250 * time.Millisecond

func (r *Request) again() bool {
	return r.Again || r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodPut
}

// neverSent reports whether the request cannot have come to a server.
func neverSent(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "dial"
}

// try asks one server, once.
func (c *Client) try(ctx context.Context, base string, r Request) (*http.Response, error) {
	where := base + r.Path
	if len(r.Query) > 0 {
		where += "?" + r.Query.Encode()
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body.Data)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, where, body)
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{c.Header, r.Header} {
		maps.Copy(req.Header, h)
	}
	req.Header.Set("User-Agent", "polylog-cli")
	if r.Body != nil {
		req.Header.Set("Content-Type", r.Body.Type)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w", req.URL.Host, reason(ctx, err))
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	return nil, problemOf(resp)
}

// reason is why a request failed, without the library's layers.
func reason(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op != "dial" {
		err = op.Err
	}
	return err
}

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("it has more than %d bytes", maxAnswer)
	}
	return b, err
}
