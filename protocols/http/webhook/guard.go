package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"polylog/core"
)

// Guard keeps requests from addresses that are not for strangers to reach through us: of this
// machine, of private networks, and others that are not of the public internet, unless they
// are allowed. It looks at what is connected to, after names are resolved, so a name that
// changes its address meanwhile is no way around it.
type Guard struct {
	guardian *ssrf.Guardian
}

// metadata are the addresses at which clouds tell machines their secrets: never allowed.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
}

// NewGuard makes one that lets through, beside the public internet, what is allowed.
func NewGuard(allow []netip.Prefix) *Guard {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return &Guard{ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))}
}

// ErrAddress is why an address is not connected to.
var ErrAddress = errors.New("the address is not one that webhooks may be sent to")

// check is nil for an address that may be connected to.
func (g *Guard) check(ip netip.Addr) error {
	ip = ip.WithZone("").Unmap()
	if slices.Contains(metadata, ip) || g.guardian.SafeAddr(ip) != nil {
		return ErrAddress
	}
	return nil
}

// control is net.Dialer's: it is asked with the address, right before the connection.
func (g *Guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return ErrAddress
	}
	return g.check(at.Addr())
}

// resolveTime bounds how long the address of a new endpoint is looked up.
const resolveTime = 3 * time.Second

// CheckURL is why nothing can be sent to a URL, or nil. A name that cannot be resolved now may
// be one later: that is found out at each attempt. The error is of kind core.Invalid, or
// core.Denied for an address that is not allowed.
func (g *Guard) CheckURL(ctx context.Context, raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return core.E(core.Invalid, "push.url is no URL")
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return core.E(core.Invalid, "push.url begins with %.20q, want http or https", u.Scheme)
	case u.User != nil:
		return core.E(core.Invalid, "push.url has a user: say push.headers instead")
	case u.Fragment != "" || host == "" || u.Opaque != "":
		return core.E(core.Invalid, "push.url is not of the form https://host/path")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return core.E(core.Invalid, "push.url has a port that is not from 1 to 65535")
		}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.denied(ip)
	}
	if strangeNumber(host) {
		return core.E(core.Invalid, "push.url: %.80q is neither a name nor an address in its plain form", host)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil // it may be there later
	}
	for _, ip := range ips {
		if err := g.denied(ip); err != nil {
			return err
		}
	}
	return nil
}

func (g *Guard) denied(ip netip.Addr) error {
	if g.check(ip) != nil {
		return core.E(core.Denied, "push.url leads to %s, which is not an address that webhooks may be sent to: webhook-allow", ip)
	}
	return nil
}

// strangeNumber reports whether a host is an IPv4 address for some resolvers, in one of the
// forms that hide it: 0x7f.1, 2130706433, 0177.0.0.1, and the like. The rule is that of
// browsers: the last part is a number (WHATWG URL, "ends in a number").
func strangeNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return true
	}
	if hex, ok := strings.CutPrefix(strings.ToLower(last), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// newClient makes the client of all requests. It goes through no proxy, since that would
// connect for us where the guard cannot see it, and follows no redirection.
func newClient(g *Guard) *http.Client {
	dialer := &net.Dialer{Timeout: connectTime, Control: g.control}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    connectTime,
			IdleConnTimeout:        90 * time.Second,
			MaxIdleConns:           2048,
			MaxIdleConnsPerHost:    64,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
		},
	}
}

const connectTime = 10 * time.Second
