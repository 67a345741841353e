package httpd

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/http/front"
	"polylog/protocols/http/publish"
	"polylog/router"
)

// hookPath is where a hook's senders post to.
func hookPath(n core.Name) string {
	if n.Namespace == core.DefaultNamespace {
		return hooksPath + url.PathEscape(n.Name)
	}
	return hooksPath + url.PathEscape(n.Namespace) + "/" + url.PathEscape(n.Name)
}

const hooksPath = "/hooks/"

// receivers are the calls of other people's webhooks. They have no rights but to be what a hook
// believes.
func receivers(m *front.Mux[handler]) {
	for _, path := range []string{hooksPath + "{hook}", hooksPath + "{hook}/{of}"} {
		m.Handle("POST", path, receive)
		m.Handle("OPTIONS", path, welcome)
	}
}

// hook finds the hook that a request is for: /hooks/NAME or /hooks/NAMESPACE/NAME.
func (c *call) hook() (*keptHook, error) {
	n := core.Name{Namespace: c.namespace, Name: c.params.Get("hook")}
	if of := c.params.Get("of"); of != "" {
		n = core.Name{Namespace: n.Name, Name: of}
	}
	h, err := c.router.Hook(c.ctx, n)
	if err != nil {
		return nil, err
	}
	k, err := readHook(h)
	return &k, err
}

// receive takes a webhook: it answers when the message is committed. What a sender sends again
// under the same id is stored once.
func receive(c *call) error {
	k, err := c.hook()
	if err != nil {
		return err
	}
	s := &k.settings
	if s.Preset == "basic" { // browsers remember passwords
		if err := front.SameOrigin(c.RequestCtx); err != nil {
			return err
		}
	}
	header := func(name string) string { return string(c.Request.Header.Peek(name)) }
	claim, err := s.Claim(k.secrets.Current(c.srv.opts.now()), header, c.srv.opts.now())
	if err != nil {
		return c.refuseHook(k, err)
	}
	if !claim.Proven() {
		c.budget = c.srv.front.StrangerBudget()
	}
	body, err := c.body(min(s.MaxBytes, c.srv.front.MaxBody())) // which may be less on this node than where the hook was set
	if err != nil {
		return err
	}
	if err := claim.Verify(body); err != nil {
		return c.refuseHook(k, err)
	}
	c.principal = k.principal(c.principal.Host)
	m := incoming{partition: -1, Message: message.Message{
		Time: c.srv.opts.now(), Priority: -1, Value: body, MessageID: s.ID.Find(header, body), Type: s.Type.Find(header, body),
		ContentType: string(c.Request.Header.ContentType()), ContentEncoding: string(c.Request.Header.ContentEncoding()),
	}}
	if key := s.Key.Find(header, body); key != "" {
		m.setKey(&key, nil)
	}
	for _, name := range s.Headers {
		for _, v := range c.Request.Header.PeekAll(name) {
			m.Headers = append(m.Headers, message.Header{Name: strings.ToLower(name), Value: message.String(string(v))})
		}
	}
	if len(c.Request.Header.Peek("Ce-Specversion")) > 0 {
		m.eventHeaders(&c.Request.Header)
	}
	if m.err != nil {
		return m.err
	}
	return c.store(k, &m)
}

// store publishes what a hook got, once.
func (c *call) store(k *keptHook, m *incoming) error {
	n, t := core.Name{Namespace: k.Name.Namespace, Name: k.settings.Topic}, (*router.Topic)(nil)
	err := c.may(router.OpWrite, router.ResourceTopic, n)
	if err == nil {
		t, err = c.topicToWrite(n)
	}
	if kind := core.KindOf(err); kind == core.NotFound || kind == core.Denied {
		// The sender has nothing to do with it, and is to come again.
		c.srv.opts.Logger.Warn("a webhook cannot be stored", "hook", k.Name, "topic", k.settings.Topic, "err", err)
		err = core.E(core.Unavailable, "the hook cannot store anything now")
	}
	if err != nil {
		return err
	}
	d := publish.To(t)
	results := make([]resultJSON, 1)
	batches := c.batches(&d, []incoming{*m}, results)
	if len(batches.All) == 0 {
		return c.answerEach(results)
	}
	b, replayed := batches.All[0], false
	if m.MessageID == "" {
		batches.Send(c.ctx, c.router, c.principal)
		if err := b.Result.Err; err != nil {
			return err
		}
	} else {
		data, err := b.Build(&d)
		if err != nil {
			return err
		}
		// The sender may have changed what does not matter, such as a timestamp: its id says
		// what is the same.
		_, replayed, err = c.router.PublishOnce(c.ctx, c.principal, t, onceKey(k.Name, m.MessageID), [16]byte{}, time.Duration(k.settings.WindowMs)*time.Millisecond,
			[]router.QueueBatch{{Queue: d.Queues[b.Partition], Data: data}})
		if err != nil {
			return err
		}
	}
	c.srv.hooked.WithLabelValues(hookOutcome(replayed)).Inc()
	return c.answer(200, struct {
		Duplicate bool `json:"duplicate"`
	}{replayed})
}

func hookOutcome(replayed bool) string {
	if replayed {
		return "duplicate"
	}
	return "stored"
}

// onceKey is that of a message of a hook. No header has a zero byte, so it is none of those that
// publishers choose.
func onceKey(n core.Name, id string) string {
	sum := sha256.Sum256([]byte(id))
	return "\x00hook " + n.String() + " " + base64.RawURLEncoding.EncodeToString(sum[:])
}

// refuseHook refuses a request that the hook does not believe.
func (c *call) refuseHook(k *keptHook, err error) error {
	c.srv.hooked.WithLabelValues("refused").Inc()
	switch k.settings.Preset {
	case "bearer":
		c.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
	case "basic":
		c.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, `Basic realm="hooks", charset="UTF-8"`)
	}
	return err
}

// welcome consents to a sender that asks before it sends: CloudEvents' HTTP Webhook, 4.
func welcome(c *call) error {
	if _, err := c.hook(); err != nil {
		return err
	}
	origin := c.Request.Header.Peek("WebHook-Request-Origin")
	if len(origin) == 0 {
		return invalid("the header WebHook-Request-Origin is missing")
	}
	c.Response.Header.SetBytesV("WebHook-Allowed-Origin", origin)
	if len(c.Request.Header.Peek("WebHook-Request-Rate")) > 0 {
		c.Response.Header.Set("WebHook-Allowed-Rate", "*")
	}
	c.Response.Header.Set(fasthttp.HeaderAllow, "OPTIONS, POST")
	return c.noContent()
}
