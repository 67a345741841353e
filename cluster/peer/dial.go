package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"polylog/core"
)

// Dial opens a connection for a use to the node wanted at addr, or to any node there
// when wanted is empty. A refusal of the other side keeps its kind.
func (n *Network) Dial(ctx context.Context, addr string, use Use, wanted string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, greetingTimeout)
	defer cancel()
	raw, err := n.o.DialFunc(ctx, addr)
	if err != nil {
		return nil, core.E(core.Unavailable, "node at %s: %v", addr, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	c, err := n.introduce(ctx, raw, addr, &hello{
		version: version, use: use, cluster: n.o.ClusterID, node: n.o.NodeID, wanted: wanted,
	})
	if !stop() && err == nil {
		err = core.E(core.Unavailable, "node at %s: %v", addr, context.Cause(ctx))
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return c, nil
}

// Silent reports whether somebody takes connections at addr but does not answer the greeting
// until ctx ends, as a node that is suspended. Who is gone, and who answers whatever it be, is
// not silent.
func (n *Network) Silent(ctx context.Context, addr string) bool {
	raw, err := n.o.DialFunc(ctx, addr)
	if err != nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	c, err := n.introduce(ctx, raw, addr, &hello{version: version, use: streams, cluster: n.o.ClusterID, node: n.o.NodeID})
	if err == nil {
		_ = c.Close()
		return false
	}
	_ = raw.Close()
	return ctx.Err() != nil
}

// introduce does the caller's half of the greeting.
func (n *Network) introduce(ctx context.Context, c net.Conn, addr string, h *hello) (net.Conn, error) {
	if err := c.SetDeadline(time.Now().Add(greetingTimeout)); err != nil {
		return nil, err
	}
	var err error
	if n.o.TLS != nil {
		if c, err = n.o.TLS.dial(ctx, c, addr); err != nil {
			return nil, core.E(core.Unavailable, "node at %s: %s", addr, maybePlain(err, "it may not speak TLS"))
		}
	}
	if _, err := c.Write(h.encode()); err != nil {
		return nil, core.E(core.Unavailable, "node at %s: greeting: %v", addr, err)
	}
	a, err := readAnswer(c)
	if err != nil && n.o.TLS == nil {
		return nil, core.E(core.Unavailable, "node at %s: greeting: %s", addr, maybePlain(err, "it may want TLS"))
	}
	if err != nil {
		return nil, core.E(core.Unavailable, "node at %s: greeting: %v", addr, err)
	}
	if a.kind != core.OK {
		return nil, &core.Error{Kind: a.kind, Msg: fmt.Sprintf("node at %s refuses: %s", addr, a.message)}
	}
	if h.cluster != "" && a.cluster != h.cluster || h.wanted != "" && a.node != h.wanted {
		return nil, core.E(core.Conflict, "node at %s is node %q of cluster %q, want node %q of cluster %q", addr, a.node, a.cluster, h.wanted, h.cluster)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return &Conn{Conn: c, Cluster: a.cluster, Node: a.node}, nil
}

// maybePlain is an error's text, with a guess where the other side just closed.
func maybePlain(err error, guess string) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fmt.Sprintf("it closed the connection (%v); %s: %s", err, guess, setBoth)
	}
	return err.Error()
}

// onceFlag is set once.
type onceFlag struct{ done atomic.Bool }

// set reports whether this call was the first.
func (f *onceFlag) set() bool { return f.done.CompareAndSwap(false, true) }
