// Package load is webhooks under load: messages are published over HTTP, and an endpoint of this
// process gets them by push subscriptions. Its ledger knows what must hold, whatever happens to the broker.
package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"polylog/compat/harness"
)

// Client calls brokers over HTTP.
type Client struct {
	Addrs []string // host:port; each call goes to one of them by chance
	HTTP  http.Client
}

// Refusal is an answer that is no success.
type Refusal struct {
	Status int
	Body   string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%d: %s", r.Status, r.Body) }

// Call makes one call. in and out are JSON; nil is none. The error is a *Refusal where the broker
// answered.
func (c *Client) Call(ctx context.Context, method, path string, in, out any, headers ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second) // pulls wait for 30 s at most
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if in == nil {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Addrs[rand.IntN(len(c.Addrs))]+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // what counts is read
	switch {
	case err != nil:
		return err
	case res.StatusCode >= 300:
		return &Refusal{Status: res.StatusCode, Body: string(text)}
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// Insist makes a call that may be made twice again and again, until it is done or can never be, or
// ctx ends.
func (c *Client) Insist(ctx context.Context, method, path string, in, out any, headers ...string) error {
	for {
		err := c.Call(ctx, method, path, in, out, headers...)
		r, refused := errors.AsType[*Refusal](err)
		if err == nil || refused && r.Status < 500 && r.Status != http.StatusTooManyRequests {
			return err
		}
		if !harness.Pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s %s: %w: %w", method, path, context.Cause(ctx), err)
		}
	}
}
