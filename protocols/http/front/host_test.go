package front

import (
	"net"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestHost(t *testing.T) {
	for _, tc := range []struct {
		from, header, want string
		local              bool
	}{
		{"127.0.0.1:1", "", "127.0.0.1", true},
		{"[::1]:1", "", "::1", true},
		{"127.0.0.1:1", "X-Forwarded-For", "", false},
		{"127.0.0.1:1", "forwarded", "", false},
		{"127.0.0.1:1", "Via", "", false},
		{"[::1]:1", "X-Real-IP", "", false},
		{"10.0.0.1:1", "X-Forwarded-For", "10.0.0.1", false}, // which may say what it likes
		{"10.0.0.1:1", "", "10.0.0.1", false},
	} {
		from, err := net.ResolveTCPAddr("tcp", tc.from)
		if err != nil {
			t.Fatal(err)
		}
		var req fasthttp.Request
		if tc.header != "" {
			req.Header.Set(tc.header, "127.0.0.1")
		}
		ctx := &fasthttp.RequestCtx{}
		ctx.Init(&req, from, nil)
		if got := Host(ctx); got != tc.want || IsLocal(ctx) != tc.local {
			t.Errorf("%+v: %q, local %t", tc, got, IsLocal(ctx))
		}
	}
}
