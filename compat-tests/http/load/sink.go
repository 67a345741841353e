package load

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"polylog/compat/harness"
)

// Sink is an endpoint that webhooks go to: at path /NAME those of subscription NAME. It takes its
// time, and refuses some.
type Sink struct {
	ledger *Ledger
	server *httptest.Server
	secret []byte
	slow   time.Duration // the longest answer
	refuse int           // one request in so many; 0: none
}

// NewSink starts an endpoint.
func NewSink(l *Ledger, slow time.Duration, refuse int) *Sink {
	s := &Sink{ledger: l, secret: []byte("the secret of an endpoint under load"), slow: slow, refuse: refuse}
	s.server = httptest.NewServer(s)
	return s
}

// Close ends it.
func (s *Sink) Close() { s.server.Close() }

// Push is what a subscription says of it.
func (s *Sink) Push(name string, ordered bool) map[string]any {
	return map[string]any{
		"url": s.server.URL + "/" + name, "ordered": ordered,
		"secrets": []string{"whsec_" + base64.StdEncoding.EncodeToString(s.secret)},
	}
}

// ServeHTTP takes a webhook.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender was killed
	}
	id := r.Header.Get("webhook-id")
	if err := s.verify(id, r.Header, body, time.Now()); err != nil {
		s.ledger.Fail("%s: %s: %v", name, id, err)
	}
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		s.ledger.Fail("%s: body %q: %v", name, body, err)
		return
	}
	s.ledger.Came(name, id, m)
	if s.slow > 0 {
		harness.Pause(context.WithoutCancel(r.Context()), rand.N(s.slow)) // an endpoint works on, whoever has left
	}
	if s.refuse > 0 && rand.IntN(s.refuse) == 0 {
		s.ledger.Failed(name)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	s.ledger.Done(name, m)
}

// verify is Standard Webhooks 1.0, "Verifying webhook authenticity".
func (s *Sink) verify(id string, h http.Header, body []byte, now time.Time) error {
	at := h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("webhook-timestamp: %w", err)
	}
	if d := now.Sub(time.Unix(seconds, 0)).Abs(); d > 5*time.Minute {
		return fmt.Errorf("webhook-timestamp is %v away", d)
	}
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for one := range strings.FieldsSeq(h.Get("webhook-signature")) {
		if hmac.Equal([]byte(one), []byte(want)) {
			return nil
		}
	}
	return fmt.Errorf("webhook-signature is %q, want %q", h.Get("webhook-signature"), want)
}
