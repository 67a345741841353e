package webhook

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"polylog/core"
	"polylog/protocols/http/subscription"
)

// handshake asks an endpoint whether it wants our requests, and how many a minute (0: any
// number): CloudEvents' web hooks 1.0, 4. A status alone is no consent. The error is of kind
// core.Denied, or core.Unavailable where the endpoint may consent another time.
func (s *sender) handshake(ctx context.Context, p *subscription.Push, x *subscription.Secrets) (perMinute int, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, p.URL, http.NoBody)
	if err != nil {
		return 0, core.E(core.Invalid, "push.url: %v", err)
	}
	x.SetHeaders(req.Header)
	req.Header.Set("User-Agent", s.agent)
	req.Header.Set("WebHook-Request-Origin", s.origin)
	if every := p.Interval(); every > 0 {
		req.Header.Set("WebHook-Request-Rate", strconv.Itoa(max(int(60e9/every), 1)))
	}
	res, err := s.client.Do(req) //nolint:bodyclose // readBody does
	if err != nil {
		kind := core.Unavailable
		if classOf(err) == ClassAddress {
			kind = core.Denied
		}
		return 0, core.E(kind, "the handshake with the endpoint failed: %s", detailOf(err))
	}
	readBody(res.Body)
	allowed := strings.TrimSpace(res.Header.Get("WebHook-Allowed-Origin"))
	if res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests {
		return 0, core.E(core.Unavailable, "the handshake with the endpoint failed: status %d", res.StatusCode)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 || allowed != "*" && !strings.EqualFold(allowed, s.origin) {
		return 0, core.E(core.Denied, "the endpoint did not consent: status %d, WebHook-Allowed-Origin %.80q, want %q or *", res.StatusCode, oneLine(allowed), s.origin)
	}
	switch rate := strings.TrimSpace(res.Header.Get("WebHook-Allowed-Rate")); rate {
	case "", "*":
		return 0, nil
	default:
		n, err := strconv.Atoi(rate)
		if err != nil || n < 1 {
			return 0, core.E(core.Denied, "the endpoint answered with WebHook-Allowed-Rate %.40q", oneLine(rate))
		}
		return n, nil
	}
}
