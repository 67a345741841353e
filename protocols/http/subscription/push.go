package subscription

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Push is where a subscription's messages are sent, and how.
type Push struct {
	URL    string `json:"url"`
	Format Format `json:"format,omitempty"` // Raw where it is left out
	// Ordered sends one message of a key at a time, in their order.
	Ordered       bool  `json:"ordered,omitempty"`
	MaxInFlight   int   `json:"maxInFlight,omitempty"`   // requests at a time; DefaultInFlight where it is 0
	RatePerSecond int   `json:"ratePerSecond,omitempty"` // 0: no bound
	TimeoutMs     int64 `json:"timeoutMs,omitempty"`     // of a request; DefaultTimeout where it is 0
	// PermanentStatuses make a message dead at once.
	PermanentStatuses []int `json:"permanentStatuses,omitempty"`
	// Handshake asks the endpoint for its consent before anything is sent to it: CloudEvents'
	// protection against abuse. AllowedPerMinute is what it allowed; 0: any number.
	Handshake        bool `json:"handshake,omitempty"`
	AllowedPerMinute int  `json:"allowedPerMinute,omitempty"`
	// Paused sends nothing: messages wait until somebody goes on.
	Paused bool `json:"paused,omitempty"`
}

// Format is how a message looks in a request.
type Format string

// The formats.
const (
	Raw        Format = "raw"                    // the value, as it is
	Binary     Format = "cloudevents-binary"     // CloudEvents' binary mode
	Structured Format = "cloudevents-structured" // CloudEvents' structured mode, in JSON
)

// Bounds of a Push.
const (
	DefaultInFlight = 16
	MaxInFlight     = 256
	DefaultTimeout  = 15_000 // ms
	MaxTimeout      = 60_000 // ms
	MaxRate         = 100_000
	MaxURL          = 2048 // bytes
	maxHeaders      = 32
	maxHeaderBytes  = 8 << 10
	// DefaultDeliveries is how often a message is tried where nothing is said: the schedule's
	// ten times.
	DefaultDeliveries = 10
)

func (p *Push) check() error {
	switch {
	case p.URL == "" || len(p.URL) > MaxURL || !utf8.ValidString(p.URL):
		return invalid("push.url has %d bytes, want 1 to %d of UTF-8", len(p.URL), MaxURL)
	case !slices.Contains([]Format{"", Raw, Binary, Structured}, p.Format):
		return invalid("push.format is %.40q, want %s, %s or %s", p.Format, Raw, Binary, Structured)
	case p.MaxInFlight < 0 || p.MaxInFlight > MaxInFlight:
		return invalid("push.maxInFlight is %d, want 1 to %d", p.MaxInFlight, MaxInFlight)
	case p.RatePerSecond < 0 || p.RatePerSecond > MaxRate:
		return invalid("push.ratePerSecond is %d, want 0 to %d", p.RatePerSecond, MaxRate)
	case p.TimeoutMs < 0 || p.TimeoutMs > MaxTimeout:
		return invalid("push.timeoutMs is %d, want 1 to %d", p.TimeoutMs, MaxTimeout)
	case slices.ContainsFunc(p.PermanentStatuses, func(s int) bool { return s < 300 || s > 599 }) || len(p.PermanentStatuses) > 100:
		return invalid("push.permanentStatuses are statuses from 300 to 599")
	}
	return nil
}

// InFlight is how many requests may be under way.
func (p *Push) InFlight() int {
	if p.MaxInFlight == 0 {
		return DefaultInFlight
	}
	return p.MaxInFlight
}

// Timeout is that of a request.
func (p *Push) Timeout() time.Duration {
	if p.TimeoutMs == 0 {
		return DefaultTimeout * time.Millisecond
	}
	return time.Duration(p.TimeoutMs) * time.Millisecond
}

// Interval is how long there is between two requests at least.
func (p *Push) Interval() (d time.Duration) {
	if p.RatePerSecond > 0 {
		d = time.Second / time.Duration(p.RatePerSecond)
	}
	if p.AllowedPerMinute > 0 {
		d = max(d, time.Minute/time.Duration(p.AllowedPerMinute))
	}
	return d
}

// ours are headers that a request has from us, or from what carries it.
var ours = []string{
	"Content-Length", "Transfer-Encoding", "Connection", "Host", "Te", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Connection", "Expect",
	"Content-Type", "Content-Encoding", "Origin",
}

// CheckHeaders is why an endpoint's own headers cannot be sent, or nil.
func CheckHeaders(headers map[string]string) error {
	bytes := 0
	for name, value := range headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		lower := strings.ToLower(name)
		switch {
		case name == "" || !isToken(name):
			return invalid("push.headers: %.40q is no name of a header", name)
		case slices.Contains(ours, canonical) || strings.HasPrefix(lower, "webhook-") || strings.HasPrefix(lower, "ce-"):
			return invalid("push.headers: %s is not yours to set", canonical)
		case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			return invalid("push.headers: the value of %s has control characters", canonical)
		}
		bytes += len(name) + len(value)
	}
	if len(headers) > maxHeaders || bytes > maxHeaderBytes {
		return invalid("push.headers: more than %d, or more than %d bytes", maxHeaders, maxHeaderBytes)
	}
	return nil
}

// isToken reports whether a name is a token: RFC 9110, 5.6.2.
func isToken(name string) bool {
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

// SetHeaders sets an endpoint's own headers.
func (s *Secrets) SetHeaders(h http.Header) {
	for name, value := range s.Headers {
		h.Set(name, value)
	}
}
