package webhook

import "time"

// breaker leaves an endpoint alone that fails all the time. It is closed while requests
// succeed now and then; after breakerFailures in a row it opens for a while, then lets one
// request pass, whose fate decides. It is a pure state machine: times are given.
type breaker struct {
	failures int       // in a row
	opens    int       // in a row
	until    time.Time // it is open until then, where opens > 0
	probing  bool      // the one request is under way
}

// Bounds of a breaker.
const (
	breakerFailures = 10
	breakerRest     = 30 * time.Second // the first time; twice as long with each time more
	breakerMaxRest  = 10 * time.Minute
)

// allow reports whether a request may be made; else when to ask again, zero for when the one
// that is under way is back.
func (b *breaker) allow(now time.Time) (ok bool, again time.Time) {
	switch {
	case b.opens == 0:
		return true, time.Time{}
	case b.probing:
		return false, time.Time{}
	case now.Before(b.until):
		return false, b.until
	}
	b.probing = true
	return true, time.Time{}
}

// open reports whether the endpoint is left alone.
func (b *breaker) open() bool { return b.opens > 0 }

// suspect reports whether the last request failed.
func (b *breaker) suspect() bool { return b.failures > 0 }

// succeeded closes it.
func (b *breaker) succeeded() { *b = breaker{} }

// failed counts a failure. It reports whether the breaker opened by that.
func (b *breaker) failed(now time.Time) (opened bool) {
	b.failures++
	if b.opens > 0 && !b.probing {
		return false // of a request from before it opened
	}
	if b.opens == 0 && b.failures < breakerFailures {
		return false
	}
	rest := breakerMaxRest
	if b.opens < 5 {
		rest = breakerRest << b.opens
	}
	b.opens++
	b.probing = false
	b.until = now.Add(min(rest, breakerMaxRest))
	return b.opens == 1
}

// abandoned says that a request was given up, which says nothing about the endpoint.
func (b *breaker) abandoned() { b.probing = false }
