package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"time"

	"polylog/compat/harness"
)

// replace kills a node for good, removes it from the cluster, and has another with an empty disk and
// an id of its own take its place.
func replace(r *run, n *node, _ *rand.Rand) (func() error, error) {
	n.kill()
	if err := n.disk.Wipe(); err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
		defer cancel()
		// The others may not have elected a leader yet, when it was the leader that died.
		for {
			out, err := exec.CommandContext(ctx, r.bin, "cluster", "remove", n.id, "--node", r.others(n)).CombinedOutput()
			if err == nil {
				break
			}
			if !harness.Pause(ctx, 500*time.Millisecond) {
				return fmt.Errorf("remove %s: %w: %s", n.id, err, out)
			}
		}
		r.replaced++
		old := n.id
		r.identify(n, fmt.Sprintf("n%d", len(r.nodes)+r.replaced), true)
		r.history.event("replaced", "node", old, "by", n.id)
		n.up()
		return nil
	}, nil
}
