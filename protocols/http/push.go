package httpd

import (
	"bytes"
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"time"

	"polylog/core"
	"polylog/protocols/http/subscription"
	"polylog/protocols/http/webhook"
	"polylog/router"
)

// pushSpec is where a subscription is to be pushed to.
type pushSpec struct {
	subscription.Push
	// Headers of each request. Their values are shown to nobody. Left out: those that are
	// there stay.
	Headers map[string]string `json:"headers,omitempty"`
	// Secrets sign requests. Left out: those that are there stay, and a new subscription gets
	// one, which is in the answer, this once.
	Secrets []string `json:"secrets,omitempty"`
}

// pushJSON is an endpoint in answers.
type pushJSON struct {
	subscription.Push
	HeaderNames  []string                  `json:"headerNames,omitempty"`
	Secrets      []subscription.SecretInfo `json:"secrets"`
	Secret       string                    `json:"secret,omitempty"`  // a new one, this once
	State        string                    `json:"state"`             // active, failing, paused, disabled or refused
	Refused      string                    `json:"refused,omitempty"` // why its owner may not have the messages
	webhook.Note                           // how it is
}

// pushDefaults has messages die where nothing is said: after the schedule, into a queue of the
// subscription's own. What is there already stays.
func (s *subscriptionSpec) pushDefaults(name string, old *router.Subscription) {
	if s.MaxDeliveries == 0 {
		s.MaxDeliveries = subscription.DefaultDeliveries
		if old != nil {
			s.MaxDeliveries = 0
			if old.DeliveryLimit > 0 {
				s.MaxDeliveries = old.DeliveryLimit + 1
			}
		}
	}
	if s.DeadLetterQueue == "" {
		s.DeadLetterQueue = name + ".dead"
		if old != nil {
			s.DeadLetterQueue = old.DeadLetter.Name
		}
	}
}

// prepared is what is known of an endpoint before its subscription is kept.
type prepared struct {
	secrets   subscription.Secrets
	generated string // a secret that its owner has to be told
	moved     bool   // it is another one than before
}

// preparePush checks an endpoint, and asks for its consent where that is wanted.
func (c *call) preparePush(spec *subscriptionSpec, old *router.Subscription) (p prepared, err error) {
	if spec.Push == nil {
		return p, nil
	}
	push := spec.Push
	if len(push.Secrets) > subscription.MaxSecrets {
		return p, invalid("push.secrets are %d, at most %d are allowed", len(push.Secrets), subscription.MaxSecrets)
	}
	for _, text := range push.Secrets {
		if err := subscription.CheckSecret(text); err != nil {
			return p, err
		}
	}
	if err := subscription.CheckHeaders(push.Headers); err != nil {
		return p, err
	}
	if err := c.engine.CheckURL(c.ctx, push.URL); err != nil {
		return p, err
	}
	var before *subscription.Push
	if old != nil {
		if p.secrets, err = subscription.SecretsOf(old); err != nil {
			return p, err
		}
		o, err := subscription.OptionsOf(old)
		if err != nil {
			return p, err
		}
		before = o.Push
	}
	if push.Headers != nil {
		p.secrets.Headers = push.Headers
	}
	if len(push.Secrets) > 0 {
		p.secrets.Signing = nil
		for _, text := range push.Secrets {
			p.secrets.Signing = append(p.secrets.Signing, subscription.Secret{Key: text})
		}
	}
	if len(p.secrets.Signing) == 0 {
		one := subscription.NewSecret()
		p.secrets.Signing, p.generated = []subscription.Secret{one}, one.Key
	}
	p.moved = before == nil || before.URL != push.URL
	if push.AllowedPerMinute = 0; push.Handshake {
		if push.AllowedPerMinute, err = c.engine.Handshake(c.ctx, &push.Push, &p.secrets); err != nil {
			return p, err
		}
	}
	return p, nil
}

// endpointChanged forgets how an endpoint was that is another one now.
func (c *call) endpointChanged(s *router.Subscription, moved bool) error {
	note, err := webhook.NoteOf(c.router, s.Name)
	if err != nil || !moved || note == (webhook.Note{}) {
		return err
	}
	return c.router.NoteEndpoint(c.ctx, s, nil)
}

// jsonOfPush is a subscription's endpoint in answers; nil where clients pull.
func (c *call) jsonOfPush(s *router.Subscription, push *subscription.Push) (*pushJSON, error) {
	if push == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	secrets, err := subscription.SecretsOf(s)
	if err != nil {
		return nil, err
	}
	j := &pushJSON{Push: *push, HeaderNames: slices.Sorted(maps.Keys(secrets.Headers)), Secrets: []subscription.SecretInfo{}, State: "active"}
	for _, one := range secrets.Current(c.srv.opts.now()) {
		j.Secrets = append(j.Secrets, one.Info())
	}
	if j.Note, err = webhook.NoteOf(c.router, s.Name); err != nil {
		return nil, err
	}
	j.EnabledAt = nil // what it asks for is done in a moment
	owner, err := subscription.OwnerOf(s)
	if err != nil {
		return nil, err
	}
	if err := webhook.MayReceive(c.router, owner, s); err != nil {
		j.Refused = err.Error()
	}
	switch {
	case j.Refused != "":
		j.State = "refused"
	case j.DisabledAt != nil:
		j.State = "disabled"
	case push.Paused:
		j.State = "paused"
	case j.FailingSince != nil:
		j.State = "failing"
	}
	return j, nil
}

// pushed is the subscription of the path, which has to be one that is pushed.
func (c *call) pushed(op router.Operation) (*router.Subscription, subscription.Options, subscription.Secrets, error) {
	s, err := c.subscription(op)
	if err == nil && op == router.OpAlter {
		s, err = subscription.Latest(c.ctx, c.router, s.Name)
	}
	if err != nil {
		return nil, subscription.Options{}, subscription.Secrets{}, err
	}
	o, err := subscription.OptionsOf(s)
	if err == nil && o.Push == nil {
		err = core.E(core.Conflict, "subscription %s is not pushed", s.Name)
	}
	if err != nil {
		return nil, o, subscription.Secrets{}, err
	}
	x, err := subscription.SecretsOf(s)
	return s, o, x, err
}

// testJSON is what came of a test.
type testJSON struct {
	ID        string        `json:"id"`
	Status    int           `json:"status,omitempty"`
	LatencyMs int64         `json:"latencyMs"`
	Class     webhook.Class `json:"class,omitempty"`
	Detail    string        `json:"detail,omitempty"`
	Response  string        `json:"response,omitempty"`
}

// testPush sends one message to the endpoint, at once and this once: the body's, or one of
// ours. It is no message of the subscription.
func testPush(c *call) error {
	ms, err := c.messages()
	if err != nil {
		return err
	}
	if len(ms) != 1 || ms[0].err != nil {
		return invalid("want one message to test with: %v", ms[0].err)
	}
	_, o, secrets, err := c.pushed(router.OpRead)
	if err != nil {
		return err
	}
	m := &ms[0].Message
	if len(m.Value) == 0 {
		m.Value, m.ContentType = []byte(`{"test":true}`), "application/json"
	}
	m.Time = c.srv.opts.now()
	batch, err := m.Batch(nil)
	if err != nil {
		return err
	}
	id := "test_" + rand.Text()
	for r, err := range core.Records(bytes.Clone(batch), core.MaxInflated) {
		if err != nil {
			return err
		}
		res := c.engine.Test(c.ctx, o.Push, &secrets, id, &r)
		return c.answer(200, testJSON{id, res.Status, res.Latency.Milliseconds(), res.Class, res.Detail, res.Response})
	}
	return core.E(core.Internal, "a batch without a record")
}

// rotateSpec is the body of :rotate.
type rotateSpec struct {
	Secret string `json:"secret"` // one is made where it is left out
	KeepMs *int64 `json:"keepMs"` // how long the old ones go on signing; a day where it is left out
}

func (s *rotateSpec) keep() (int64, error) {
	keep := subscription.KeepSecret.Milliseconds()
	if s.KeepMs != nil {
		keep = *s.KeepMs
	}
	if most := subscription.MaxKeepSecret.Milliseconds(); keep < 0 || keep > most {
		return 0, invalid("keepMs is %d, want 0 to %d", keep, most)
	}
	return keep, nil
}

// rotateSecret gives the endpoint a new secret. For a while requests are signed by the old
// ones, too.
func rotateSecret(c *call) error {
	var spec rotateSpec
	if err := c.definition(&spec); err != nil {
		return err
	}
	s, o, secrets, err := c.pushed(router.OpAlter)
	if err != nil {
		return err
	}
	keep, err := spec.keep()
	if err != nil {
		return err
	}
	next, generated := subscription.Secret{Key: spec.Secret}, ""
	if spec.Secret == "" {
		next = subscription.NewSecret()
		generated = next.Key
	} else if err := subscription.CheckSecret(spec.Secret); err != nil {
		return err
	}
	now := c.srv.opts.now()
	if err := secrets.Rotate(next, now, now+keep); err != nil {
		return err
	}
	if err := subscription.Save(c.ctx, c.router, c.principal, s, &o, &secrets); err != nil {
		return err
	}
	j, err := c.jsonOfPush(s, o.Push)
	if err != nil {
		return err
	}
	j.Secret = generated
	return c.answer(200, j)
}

// enablePush has an endpoint be sent to again that was paused or switched off, or that is left alone.
func enablePush(c *call) error {
	s, err := c.subscription(router.OpAlter)
	if err != nil {
		return err
	}
	if err := webhook.Enable(c.ctx, c.router, c.principal, s, time.UnixMilli(c.srv.opts.now())); err != nil {
		return err
	}
	return c.noContent()
}

// pausePush has nothing more be sent to an endpoint until it is enabled. What is under way ends as it ends.
func pausePush(c *call) error {
	s, err := c.subscription(router.OpAlter)
	if err != nil {
		return err
	}
	if err := webhook.Pause(c.ctx, c.router, c.principal, s); err != nil {
		return err
	}
	return c.noContent()
}

// listAttempts has what was tried with the endpoint, the newest first.
func listAttempts(c *call) error {
	if err := c.onlyQuery("limit", "cursor"); err != nil {
		return err
	}
	limit, after, err := c.page()
	if err != nil {
		return err
	}
	before := core.Offset(0)
	if after != "" {
		n, err := strconv.ParseInt(after, 10, 62)
		if err != nil || n < 1 {
			return invalid("this is no cursor of ours")
		}
		before = core.Offset(n)
	}
	s, err := c.subscription(router.OpDescribe)
	if err != nil {
		return err
	}
	// The topic has those of other subscriptions, too, and is not the caller's to read.
	all, more, err := webhook.Attempts(c.router, s.Name, before, limit)
	if err != nil {
		return err
	}
	if c.may(router.OpRead, router.ResourceGroup, s.Name) != nil && c.may(router.OpAlter, router.ResourceGroup, s.Name) != nil {
		for i := range all {
			all[i].Response = "" // it may have the message in it
		}
	}
	answer := struct {
		Attempts []webhook.Attempt `json:"attempts"`
		Next     string            `json:"next,omitempty"`
	}{Attempts: []webhook.Attempt{}}
	answer.Attempts = append(answer.Attempts, all...)
	if more > 0 {
		answer.Next = strconv.FormatInt(int64(more), 10)
	}
	return c.answer(200, answer)
}
