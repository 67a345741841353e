package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// scenario is a step in the cluster's life; each begins where the one before has ended.
type scenario struct {
	name string
	long bool // left out of the short version
	do   func(context.Context, *cluster, *load) error
}

var scenarios = []scenario{
	{"three nodes form a cluster", false, form},
	{"what must not join is refused", false, refusals},
	{"rolling restart, or upgrade", false, rollingRestart},
	{"wills of a killed node's clients", false, wills},
	{"subscriptions of a killed node", false, webhooks},
	{"kill -9 of each node", true, killEach},
	{"a node is removed", false, removed},
	{"... and joins with an empty directory", true, rejoined},
	{"a wiped disk, replaced by a new node", true, replaced},
	{"no majority: nobody joins", true, noQuorum},
	{"everything is there", false, verified},
}

func form(ctx context.Context, c *cluster, l *load) error {
	for _, id := range []string{"n1", "n2", "n3"} {
		if err := c.nodes[id].up(ctx); err != nil {
			return err
		}
		if id == "n1" { // the others join under load
			if err := l.start(ctx, 3); err != nil {
				return err
			}
		}
	}
	if _, err := c.settled(ctx, "n1", "n2", "n3"); err != nil {
		return err
	}
	return errors.Join(c.healthy(ctx, c.nodes["n2"]), l.goesOn(ctx))
}

func refusals(ctx context.Context, c *cluster, l *load) error {
	n2, n3 := c.nodes["n2"], c.nodes["n3"]
	free, err := freeAddrs(1)
	if err != nil {
		return err
	}
	twin := *n2
	twin.peer, twin.joining = free[0], []string{c.nodes["n1"].peer}
	empty := filepath.Join(n2.dir, "empty")
	if err := twin.refused(ctx, empty, "node n2 is a member of the cluster with other data"); err != nil {
		return err
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 1 {
		return fmt.Errorf("a refused node left %v, %w", left, err)
	}
	copied := filepath.Join(n3.dir, "copy")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(n3.dir, "data"))); err != nil {
		return err
	}
	twin.id, twin.joining = "n3", nil
	if err := twin.refused(ctx, copied, "node n3 already runs at "+n3.peer); err != nil {
		return err
	}
	foreign := &node{id: "n9", dir: filepath.Join(n2.dir, "foreign"), bin: c.bin, kafka: "127.0.0.1:0", peer: free[0]}
	if err := foreign.up(ctx); err != nil {
		return err
	}
	if err := foreign.down(); err != nil {
		return err
	}
	foreign.joining = []string{n2.peer}
	if err := foreign.refused(ctx, filepath.Join(foreign.dir, "data"), "belongs to cluster"); err != nil {
		return err
	}
	newer := filepath.Join(n2.dir, "newer")
	if err := os.MkdirAll(newer, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(newer, "meta"), []byte("polylog data directory\nformat 99\n"), 0o644); err != nil {
		return err
	}
	foreign.id = "n8"
	if err := foreign.refused(ctx, newer, "has format 99"); err != nil {
		return err
	}
	if err := foreign.refused(ctx, filepath.Join(n2.dir, "nobody"), "cannot join the cluster at 127.0.0.1:1:", "--join=127.0.0.1:1", "--join-timeout=1s"); err != nil {
		return err
	}
	return l.goesOn(ctx)
}

func rollingRestart(ctx context.Context, c *cluster, l *load) error {
	for _, id := range []string{"n2", "n3", "n1"} { // the leader, most likely, last
		n := c.nodes[id]
		if _, err := c.polylog(ctx, "cluster", "drain", id, "-n", n.peer); err != nil {
			return err
		}
		if _, err := n.ended(ctx); err != nil {
			return err
		}
		if err := l.goesOn(ctx); err != nil {
			return err
		}
		n.bin = c.bin
		if err := n.up(ctx); err != nil {
			return err
		}
		if _, err := c.settled(ctx, "n1", "n2", "n3"); err != nil {
			return err
		}
	}
	return l.goesOn(ctx)
}

func killEach(ctx context.Context, c *cluster, l *load) error {
	for _, id := range []string{"n1", "n2", "n3"} {
		c.nodes[id].kill()
		if err := l.goesOn(ctx); err != nil {
			return fmt.Errorf("after the kill of %s: %w", id, err)
		}
		if err := c.nodes[id].up(ctx); err != nil {
			return err
		}
	}
	_, err := c.settled(ctx, "n1", "n2", "n3")
	return err
}

func removed(ctx context.Context, c *cluster, l *load) error {
	n3 := c.nodes["n3"]
	if _, err := c.polylog(ctx, "cluster", "remove", "n3", "-n", c.nodes["n1"].peer); err != nil {
		return err
	}
	line, err := n3.ended(ctx)
	if err != nil || !strings.Contains(line, "polylog: node n3 was removed from the cluster") {
		return fmt.Errorf("n3's last line is %q, %w", line, err)
	}
	if err := n3.refused(ctx, filepath.Join(n3.dir, "data"), "node n3 was removed from the cluster"); err != nil {
		return err
	}
	if _, err := c.settled(ctx, "n1", "n2"); err != nil {
		return err
	}
	return l.goesOn(ctx)
}

func rejoined(ctx context.Context, c *cluster, l *load) error {
	n3 := c.nodes["n3"]
	if err := n3.wipe(); err != nil {
		return err
	}
	if err := n3.up(ctx); err != nil {
		return err
	}
	if _, err := c.settled(ctx, "n1", "n2", "n3"); err != nil {
		return err
	}
	return l.goesOn(ctx)
}

func replaced(ctx context.Context, c *cluster, l *load) error {
	n2 := c.nodes["n2"]
	n2.kill()
	if err := n2.wipe(); err != nil {
		return err
	}
	if err := n2.refused(ctx, filepath.Join(n2.dir, "data"), "node n2 is a member of the cluster with other data"); err != nil {
		return err
	}
	if _, err := c.polylog(ctx, "cluster", "remove", "n2", "-n", c.nodes["n3"].peer); err != nil {
		return err
	}
	if err := c.nodes["n4"].up(ctx); err != nil {
		return err
	}
	if _, err := c.settled(ctx, "n1", "n3", "n4"); err != nil {
		return err
	}
	return l.goesOn(ctx)
}

func noQuorum(ctx context.Context, c *cluster, l *load) error {
	c.nodes["n1"].kill()
	c.nodes["n3"].kill()
	n2 := c.nodes["n2"]
	was := n2.joining
	n2.joining = []string{c.nodes["n4"].peer}
	err := n2.refused(ctx, filepath.Join(n2.dir, "data"), "cannot join the cluster", "--join-timeout=5s")
	n2.joining = was
	err = errors.Join(err, c.nodes["n1"].up(ctx), c.nodes["n3"].up(ctx))
	if err != nil {
		return err
	}
	if _, err := c.settled(ctx, "n1", "n3", "n4"); err != nil {
		return err
	}
	return l.goesOn(ctx)
}

func verified(ctx context.Context, c *cluster, l *load) error {
	if err := l.verify(ctx); err != nil {
		return err
	}
	for _, id := range []string{"n1", "n2", "n3", "n4"} {
		n := c.nodes[id]
		if n.broker == nil {
			continue
		}
		if err := n.down(); err != nil {
			return fmt.Errorf("stop of %s: %w", id, err)
		}
		if _, err := c.polylog(ctx, "check", "--data-dir", filepath.Join(n.dir, "data")); err != nil {
			return err
		}
	}
	return nil
}
