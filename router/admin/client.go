package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"polylog/core"
	"polylog/router"
)

// Client asks the nodes at some addresses. It belongs to no cluster.
type Client struct {
	// Addrs are tried in their order until one answers.
	Addrs []string
	// Open opens a stream for Service of whatever node is at addr.
	Open func(ctx context.Context, addr string) (core.Stream, error)
}

// callTimeout bounds what one node may take for an answer.
const callTimeout = 10 * time.Second

// ask asks one address after the other until one answers, or refuses for good.
func (c *Client) ask(ctx context.Context, r *request, answer any) error {
	var last error
	for _, addr := range c.Addrs {
		err := c.askOne(ctx, addr, r, answer)
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return err
		}
		last = err
	}
	return last
}

func (c *Client) askOne(ctx context.Context, addr string, r *request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := c.Open(ctx, addr)
	if err != nil {
		return err
	}
	return call(s, r, answer)
}

// isFinal says that asking again, or another node, gives the same answer.
func isFinal(err error) bool {
	switch core.KindOf(err) {
	case core.Conflict, core.Invalid, core.Unsupported, core.Denied, core.NotFound, core.TooLarge, core.Limit:
		return true
	default:
		return false
	}
}

// Info asks who takes part.
func (c *Client) Info(ctx context.Context) (i Info, err error) {
	return i, c.ask(ctx, &request{Op: opInfo}, &i)
}

// Health asks how the cluster is.
func (c *Client) Health(ctx context.Context) (h Health, err error) {
	return h, c.ask(ctx, &request{Op: opHealth}, &h)
}

// Remove takes a node out of the cluster for good, and ends it.
func (c *Client) Remove(ctx context.Context, node string) error {
	return c.ask(ctx, &request{Op: opRemove, Node: node}, &struct{}{})
}

// Drain has a node hand over what it does and stop. Unless force is set it is refused
// where the others could not go on without it.
func (c *Client) Drain(ctx context.Context, node string, force bool) error {
	return c.ask(ctx, &request{Op: opDrain, Node: node, Force: force}, &struct{}{})
}

// joinPause is between two tries to join.
const joinPause = 500 * time.Millisecond

// Admit asks whether a new node may join, until somebody says so or refuses; when ctx ends
// the error is the last one. retry, which may be nil, sees each error that is got over.
func (c *Client) Admit(ctx context.Context, n *router.Candidate, retry func(error)) (Admission, error) {
	return c.until(ctx, opAdmit, n, retry)
}

// Join has a node that runs take part; as Admit.
func (c *Client) Join(ctx context.Context, n *router.Candidate, retry func(error)) (Admission, error) {
	return c.until(ctx, opJoin, n, retry)
}

func (c *Client) until(ctx context.Context, op string, n *router.Candidate, retry func(error)) (a Admission, err error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		n.Clock = time.Now()
		e := c.ask(ctx, &request{Op: op, Candidate: fromCandidate(n)}, &a)
		switch {
		case e == nil:
			return a, nil
		case isFinal(e):
			return a, core.E(core.KindOf(e), "cannot join the cluster at %s: %v", c.where(), e)
		case err == nil || !outOfTime(ctx):
			err = e // not what the end of ctx made of it
		}
		if retry != nil && ctx.Err() == nil {
			retry(e)
		}
		pause.Reset(joinPause)
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return a, core.E(core.Closed, "stopped while joining")
			}
			return a, core.E(core.Unavailable, "cannot join the cluster at %s: %v", c.where(), err)
		case <-pause.C:
		}
	}
}

// outOfTime reports whether ctx has ended or is just about to: an error of a call may be the
// first to tell.
func outOfTime(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

func (c *Client) where() string { return strings.Join(c.Addrs, ",") }
