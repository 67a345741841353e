package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"polylog/core"
	"polylog/protocols/http/subscription"
)

// Result is what became of one request.
type Result struct {
	Status   int           // 0: there was no answer
	Class    Class         // of the failure; "" for success
	Detail   string        // one line
	Response string        // the beginning of a body that came with a failure
	Latency  time.Duration // until the answer's headers
	// RetryAfter is how long the endpoint wants to be left alone; 0: it does not say.
	RetryAfter time.Duration
}

// Class is why a request failed.
type Class string

// The classes.
const (
	ClassStatus   Class = "status"   // an answer that is no success
	ClassRedirect Class = "redirect" // an answer that leads elsewhere, which is not followed
	ClassDNS      Class = "dns"
	ClassAddress  Class = "address" // the guard refused it
	ClassConnect  Class = "connect"
	ClassTLS      Class = "tls"
	ClassTimeout  Class = "timeout"
	ClassProtocol Class = "protocol" // what came is no answer
	ClassRequest  Class = "request"  // it could not be made
)

// Bounds of what is read of an answer.
const (
	keptResponse = 4 << 10  // bytes of a failure's
	readResponse = 64 << 10 // bytes, so that the connection can be used again
	// maxRetryAfter bounds how long an endpoint can ask to be left alone.
	maxRetryAfter = time.Hour
)

// sender sends requests.
type sender struct {
	client *http.Client
	agent  string // User-Agent
	origin string // WebHook-Request-Origin
	now    func() time.Time
}

// send makes one attempt to deliver a message.
func (s *sender) send(ctx context.Context, p *subscription.Push, x *subscription.Secrets, id, source string, r *core.Record) Result {
	body, header := render(p.Format, id, source, r)
	ctx, cancel := context.WithTimeout(ctx, p.Timeout())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return Result{Class: ClassRequest, Detail: oneLine(err.Error())}
	}
	req.Header = header
	x.SetHeaders(req.Header)
	req.Header.Set("User-Agent", s.agent)
	if p.Handshake {
		req.Header.Set("Origin", s.origin)
	}
	s.sign(req.Header, x, id, body)
	began := time.Now()
	res, err := s.client.Do(req) //nolint:bodyclose // readBody does
	if err != nil {
		return Result{Class: classOf(err), Detail: detailOf(err), Latency: time.Since(began)}
	}
	out := Result{Status: res.StatusCode, Latency: time.Since(began)}
	text := readBody(res.Body)
	switch {
	case res.StatusCode < 200:
		out.Class, out.Detail = ClassProtocol, res.Status
	case res.StatusCode < 300:
		return out
	case res.StatusCode < 400:
		out.Class, out.Detail = ClassRedirect, oneLine(res.Status)
	default:
		out.Class, out.Detail = ClassStatus, oneLine(res.Status)
	}
	out.Response = text
	out.RetryAfter = retryAfter(res.Header.Get("Retry-After"), s.now())
	return out
}

// sign adds the headers of Standard Webhooks. The time is that of the attempt.
func (s *sender) sign(h http.Header, x *subscription.Secrets, id string, body []byte) {
	now := s.now()
	at := strconv.FormatInt(now.Unix(), 10)
	h["Webhook-Id"], h["Webhook-Timestamp"] = []string{id}, []string{at}
	signed := append([]byte(id+"."+at+"."), body...)
	var all []string
	for _, one := range x.Current(now.UnixMilli()) {
		all = append(all, one.Sign(signed))
	}
	if len(all) > 0 {
		h["Webhook-Signature"] = []string{strings.Join(all, " ")}
	}
}

// readBody reads an answer's body, as far as it is kept or the connection is worth it. Where it
// breaks off the status has said what counts.
func readBody(b io.ReadCloser) (kept string) {
	defer func() { _ = b.Close() }()
	text, err := io.ReadAll(io.LimitReader(b, keptResponse))
	if err == nil {
		_, _ = io.CopyN(io.Discard, b, readResponse)
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// retryAfter reads the header: seconds, or a date. RFC 9110, 10.2.3. 0 where it says neither.
func retryAfter(text string, now time.Time) time.Duration {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), time.Second), maxRetryAfter) // a time that is over is now
	}
	return 0
}

// classOf says why a request had no answer.
func classOf(err error) Class {
	var dns *net.DNSError
	var op *net.OpError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.Is(err, ErrAddress):
		return ClassAddress
	case errors.As(err, &dns):
		return ClassDNS
	case isTLS(err), errors.As(err, &record):
		return ClassTLS
	case errors.As(err, &timeout) && timeout.Timeout():
		return ClassTimeout
	case errors.As(err, &op):
		return ClassConnect
	}
	return ClassProtocol
}

func isTLS(err error) bool {
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &certificate) || errors.As(err, &alert) || errors.As(err, &authority) || errors.As(err, &host)
}

// detailOf is an error in one line, without the URL, which its reader knows.
func detailOf(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return oneLine(err.Error())
}

// oneLine is a text without control characters, and not long.
func oneLine(text string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "")
	}
	return text
}

const maxDetail = 300 // bytes
