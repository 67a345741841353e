package webhook

import (
	"context"
	"encoding/json"
	"time"

	"polylog/core"
	"polylog/router"
)

// Note is what is remembered of an endpoint, in the log: it outlives who pushes. Nothing is
// noted of an endpoint that is well.
type Note struct {
	FailingSince *time.Time `json:"failingSince,omitempty"` // every request failed since
	LastError    string     `json:"lastError,omitempty"`
	DisabledAt   *time.Time `json:"disabledAt,omitempty"` // nothing is sent from then on
	EnabledAt    *time.Time `json:"enabledAt,omitempty"`  // somebody wants it to be tried again at once
}

// NoteOf is what is remembered of a subscription's endpoint.
func NoteOf(r *router.Router, n core.Name) (note Note, err error) {
	text, err := r.Endpoint(n)
	if err != nil || text == nil {
		return note, err
	}
	return note, json.Unmarshal(text, &note)
}

// Remember keeps a note; the zero one is none.
func (n *Note) Remember(ctx context.Context, r *router.Router, s *router.Subscription) error {
	if *n == (Note{}) {
		return r.NoteEndpoint(ctx, s, nil)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return r.NoteEndpoint(ctx, s, text)
}

// disableAfter is how long an endpoint may fail all the time before it is switched off.
const disableAfter = 5 * 24 * time.Hour
