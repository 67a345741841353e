// Package subscription is what a subscription says beside what the log's state knows: how it
// is read, filtered, retried, and where it is pushed to. That is JSON in its attributes, and
// what is to stay secret in an attribute of its own, which answers never have.
package subscription

import (
	"context"
	"encoding/json"
	"time"

	"polylog/core"
	"polylog/protocols/http/filter"
	"polylog/router"
)

// Options can be changed while the subscription is there.
type Options struct {
	AckDeadlineMs int64        `json:"ackDeadlineMs,omitempty"`
	Filter        *filter.Spec `json:"filter,omitempty"`
	Retry         *Retry       `json:"retry,omitempty"`
	Push          *Push        `json:"push,omitempty"` // nil: clients pull
}

// Retry says how long a message that failed rests: MinMs, and twice as long with each failure
// more, up to MaxMs.
type Retry struct {
	MinMs int64 `json:"minMs"`
	MaxMs int64 `json:"maxMs"`
}

// After is how long a message rests that has failed so often before.
func (p *Retry) After(attempts int) time.Duration {
	if p == nil || p.MinMs == 0 {
		return 0
	}
	ms := p.MinMs
	for ; attempts > 0 && ms < p.MaxMs; attempts-- {
		ms *= 2
	}
	return time.Duration(min(ms, max(p.MaxMs, p.MinMs))) * time.Millisecond
}

// Bounds of what a subscription may say, in ms.
const (
	DefaultDeadline = 30_000
	MinDeadline     = 1
	MaxDeadline     = 12 * 3600 * 1000
	MaxRetry        = 7 * 24 * 3600 * 1000
)

// Check is why options are none, or nil. The error is of kind core.Invalid.
func (o *Options) Check() error {
	switch {
	case o.AckDeadlineMs < MinDeadline || o.AckDeadlineMs > MaxDeadline:
		return invalid("ackDeadlineMs is %d, want %d to %d", o.AckDeadlineMs, MinDeadline, MaxDeadline)
	case o.Retry != nil && (o.Retry.MinMs < 0 || o.Retry.MaxMs < o.Retry.MinMs || o.Retry.MaxMs > MaxRetry):
		return invalid("retry is from %d to %d ms, want 0 to %d", o.Retry.MinMs, o.Retry.MaxMs, MaxRetry)
	}
	if _, err := filter.Compile(o.Filter); err != nil {
		return err
	}
	if o.Push != nil {
		return o.Push.check()
	}
	return nil
}

// optionsAttribute has the options, router.SecretAttribute the secrets, ownerAttribute whose it is.
const (
	optionsAttribute = "http"
	ownerAttribute   = "owner"
)

// Attributes are what the log keeps of options and secrets, and of whoever's rights count for what is
// pushed.
func Attributes(o *Options, s *Secrets, owner router.Owner) (map[string]string, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	all := map[string]string{optionsAttribute: string(text)}
	if owner != (router.Owner{}) {
		if text, err = json.Marshal(owner); err != nil {
			return nil, err
		}
		all[ownerAttribute] = string(text)
	}
	if o.Push != nil && s != nil {
		if text, err = json.Marshal(s); err != nil {
			return nil, err
		}
		all[router.SecretAttribute] = string(text)
	}
	return all, nil
}

// Latest is a subscription as the leader has it: whoever changes a part of one read it there, or would put back what others
// have changed over another node. Error kinds: NotFound, Unavailable.
func Latest(ctx context.Context, r *router.Router, n core.Name) (*router.Subscription, error) {
	if err := r.Sync(ctx); err != nil {
		return nil, err
	}
	return r.Subscription(ctx, n)
}

// Save changes the options and secrets of a subscription, which stays whose it is. Error kinds are those of
// Router.SetSubscription, and NotFound where what it is of was deleted.
func Save(ctx context.Context, r *router.Router, p router.Principal, s *router.Subscription, o *Options, x *Secrets) error {
	owner, err := OwnerOf(s)
	if err != nil {
		return err
	}
	if s.Attributes, err = Attributes(o, x, owner); err != nil {
		return err
	}
	spec := router.SubscriptionSpec{Name: s.Name, From: router.FromStart, Config: s.AckConfig}
	if s.Topic.IsZero() {
		spec.Queue, err = r.QueueByID(s.Queue)
	} else {
		t, ok := r.TopicByID(s.Topic)
		if !ok {
			return core.E(core.NotFound, "the topic of subscription %s was deleted", s.Name)
		}
		spec.Topic = t
	}
	if err == nil {
		_, _, err = r.SetSubscription(ctx, p, spec)
	}
	return err
}

// OptionsOf are those of a subscription.
func OptionsOf(s *router.Subscription) (o Options, err error) {
	o.AckDeadlineMs = DefaultDeadline
	if text := s.Attributes[optionsAttribute]; text != "" {
		err = json.Unmarshal([]byte(text), &o)
	}
	return o, err
}

// OwnerOf is whose a subscription is.
func OwnerOf(s *router.Subscription) (o router.Owner, err error) {
	if text := s.Attributes[ownerAttribute]; text != "" {
		err = json.Unmarshal([]byte(text), &o)
	}
	return o, err
}

// SecretsOf are those of a subscription that is pushed.
func SecretsOf(s *router.Subscription) (x Secrets, err error) {
	if text := s.Attributes[router.SecretAttribute]; text != "" {
		err = json.Unmarshal([]byte(text), &x)
	}
	return x, err
}

func invalid(format string, args ...any) error { return core.E(core.Invalid, format, args...) }
