package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is what the server does with the requests of one API key.
type api struct {
	key      kmsg.Key
	min, max int16 // versions that are served
	handle   handler
	aliases  bool // the decoded request aliases the frame's buffer, which lives until the call ends
	flags    apiFlags
}

type apiFlags uint8

const (
	// advertiseFromZero shows version 0 as the lowest although min is served:
	// librdkafka turns compression off when Produce starts above 0 (KAFKA-18659).
	advertiseFromZero apiFlags = 1 << iota
)

// handler serves a decoded request. It must see to it that the call is answered, and
// may leave that to another goroutine; while it runs, nothing more is read from the
// connection. ctx ends with the connection.
type handler func(ctx context.Context, c *call, req kmsg.Request)

// later makes a handler of a function that answers by c.reply, sooner or later.
func later[Q kmsg.Request](fn func(ctx context.Context, c *call, req Q)) handler {
	return func(ctx context.Context, c *call, req kmsg.Request) { fn(ctx, c, req.(Q)) }
}

// now makes a handler of a function that returns its answer.
func now[Q kmsg.Request, R kmsg.Response](fn func(ctx context.Context, c *call, req Q) R) handler {
	return func(ctx context.Context, c *call, req kmsg.Request) { c.reply(fn(ctx, c, req.(Q))) }
}

// table lists everything that the server serves. ApiVersions advertises exactly this.
func table() []api {
	return []api{
		{key: kmsg.ApiVersions, min: 0, max: 5, handle: later(apiVersions)},
	}
}

// apiTable finds an API by its key.
type apiTable []*api

func newAPITable() apiTable {
	t := make(apiTable, kmsg.MaxKey+1)
	for _, a := range table() {
		t[a.key] = &a
	}
	return t
}

// lookup returns the API with a key that came off the wire, nil when it is not served.
func (t apiTable) lookup(key int16) *api {
	if key < 0 || int(key) >= len(t) {
		return nil
	}
	return t[key]
}

func (a *api) serves(version int16) bool {
	return version >= a.advertisedMin() && version <= a.max
}

func (a *api) advertisedMin() int16 {
	if a.flags&advertiseFromZero != 0 {
		return 0
	}
	return a.min
}

// request makes an empty request of a version that is served.
func (a *api) request(version int16) kmsg.Request {
	req := a.key.Request()
	req.SetVersion(version)
	return req
}

// decode fills req from body.
func (a *api) decode(req kmsg.Request, body []byte) error {
	if u, ok := req.(interface{ UnsafeReadFrom([]byte) error }); ok && a.aliases {
		return u.UnsafeReadFrom(body)
	}
	return req.ReadFrom(body)
}
