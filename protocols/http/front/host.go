package front

import (
	"net"
	"net/netip"
	"slices"

	"github.com/valyala/fasthttp"
)

// forwarded are headers by which proxies say that a request is somebody else's: RFC 7239, RFC 9110, 7.6.3,
// and those that were there before them.
var forwarded = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// Host is the address of a request's client. It is empty where nobody knows it: a proxy on this machine has
// passed the request on. What that says of whom it is from is not believed, since anybody can say so, but
// that it is from elsewhere.
func Host(ctx *fasthttp.RequestCtx) string {
	a := client(ctx)
	if !a.IsValid() || a.IsLoopback() && isForwarded(&ctx.Request.Header) {
		return ""
	}
	return a.String()
}

// client is the address that a request's connection has at its other end.
func client(ctx *fasthttp.RequestCtx) netip.Addr {
	if a, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

func isForwarded(h *fasthttp.RequestHeader) bool {
	for name := range h.All() {
		if slices.Contains(forwarded, string(name)) {
			return true
		}
	}
	return false
}

// IsLocal reports whether a request is from this machine, and no proxy's.
func IsLocal(ctx *fasthttp.RequestCtx) bool {
	return client(ctx).IsLoopback() && !isForwarded(&ctx.Request.Header)
}
