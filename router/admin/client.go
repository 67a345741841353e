package admin

import (
	"context"
	"errors"
	"slices"
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

// NoAnswer is the error of a node that said nothing: it could not be reached, or not in time.
type NoAnswer struct {
	Err  error
	Late bool // time ran out: Err says no more than that
}

// Error is why there was none.
func (n NoAnswer) Error() string { return n.Err.Error() }

// Unwrap gives the error its kind.
func (n NoAnswer) Unwrap() error { return n.Err }

// clearer is the one of two errors that says more: what a node has answered before why it
// could not be reached, and that before a time-out; else the newer.
func clearer(older, newer error) error {
	if weight(older) > weight(newer) {
		return older
	}
	return newer
}

func weight(err error) int {
	n, silent := errors.AsType[NoAnswer](err)
	switch {
	case err == nil:
		return 0
	case silent && n.Late:
		return 1
	case silent:
		return 2
	default:
		return 3
	}
}

// ask asks one address after the other until one answers, or refuses for good.
func (c *Client) ask(ctx context.Context, r *request, answer any) error {
	var why error
	for _, addr := range c.Addrs {
		err := c.askOne(ctx, addr, r, answer)
		if err == nil || isFinal(err) {
			return err
		}
		if why = clearer(why, err); ctx.Err() != nil {
			break
		}
	}
	return why
}

func (c *Client) askOne(ctx context.Context, addr string, r *request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	s, err := c.Open(ctx, addr)
	reached := err == nil
	if reached {
		err = call(s, r, answer)
	}
	if late := outOfTime(ctx); err != nil && !isFinal(err) && (!reached || late) {
		return NoAnswer{Err: err, Late: late}
	}
	return err
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

// Health asks how the cluster is, and with compare whether all members have the same
// state, for which they read all that they hold.
func (c *Client) Health(ctx context.Context, compare bool) (h Health, err error) {
	return h, c.ask(ctx, &request{Op: opHealth, Compare: compare}, &h)
}

// Remove takes a node out of the cluster for good, and ends it. It tries until ctx ends
// where the cluster has no leader or nobody answers.
func (c *Client) Remove(ctx context.Context, node string) error {
	was := false // it was a member when we began to ask
	return until(ctx, nil, func() error {
		if !was {
			i, err := c.Info(ctx)
			was = err == nil && slices.ContainsFunc(i.Members, func(m Member) bool { return m.ID == node })
		}
		err := c.ask(ctx, &request{Op: opRemove, Node: node}, &struct{}{})
		if was && core.KindOf(err) == core.NotFound {
			return nil // an earlier try did it, and its answer was lost
		}
		return err
	})
}

// Drain has a node hand over what it does and stop. Unless force is set it is refused
// where the others could not go on without it. It tries as Remove does.
func (c *Client) Drain(ctx context.Context, node string, force bool) error {
	return until(ctx, nil, func() error {
		return c.ask(ctx, &request{Op: opDrain, Node: node, Force: force}, &struct{}{})
	})
}

// Admit asks whether a new node may join, until somebody says so or refuses, or ctx ends.
// self is the node as it is now. retry, which may be nil, sees each error that is got over.
func (c *Client) Admit(ctx context.Context, self func() router.Candidate, retry func(error)) (Admission, error) {
	return c.introduce(ctx, opAdmit, self, retry)
}

// Join has a node that runs take part; as Admit.
func (c *Client) Join(ctx context.Context, self func() router.Candidate, retry func(error)) (Admission, error) {
	return c.introduce(ctx, opJoin, self, retry)
}

func (c *Client) introduce(ctx context.Context, op string, self func() router.Candidate, retry func(error)) (a Admission, err error) {
	err = until(ctx, retry, func() error {
		n := self() // with the time of this try
		return c.ask(ctx, &request{Op: op, Candidate: fromCandidate(&n)}, &a)
	})
	if err != nil && core.KindOf(err) != core.Closed {
		err = core.E(core.KindOf(err), "cannot join the cluster at %s: %v", strings.Join(c.Addrs, ","), err)
	}
	return a, err
}

// retryPause is between two tries.
const retryPause = 500 * time.Millisecond

// until tries until it succeeds or is refused for good. When ctx ends the error is what a
// node said last, or why none did; of kind Closed where ctx was cancelled.
func until(ctx context.Context, retry func(error), try func() error) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var why error
	for {
		err := try()
		if err == nil || isFinal(err) {
			return err
		}
		why = clearer(why, err)
		if retry != nil && ctx.Err() == nil {
			retry(err)
		}
		pause.Reset(retryPause)
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return core.E(core.Closed, "stopped while asking: %v", why)
			}
			return why
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
