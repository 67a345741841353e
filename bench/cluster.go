package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polylog/compat/harness"
)

// A cluster of three against one node, all on this machine: they share its cores and its disk,
// and each writes everything, so only the ratio says something. The leader is written to, as
// Kafka clients do.

// clusterGoal is what the ratio should be at least.
const clusterGoal = 0.4

// replicated measures produce at one node and at three, in turn, and writes its section.
func (b *bench) replicated(ctx context.Context) error {
	var err error
	for _, p := range []*string{&b.bin, &b.work} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	rates := map[string]map[int][]float64{}
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return err
	}
	for round := range b.rounds {
		for _, flush := range []string{"sync", "os"} {
			if rates[flush] == nil {
				rates[flush] = map[int][]float64{}
			}
			for _, nodes := range []int{1, 3} {
				r, err := b.produceTo(ctx, nodes, flush)
				if err != nil {
					return fmt.Errorf("%d nodes, %s: %w", nodes, flush, err)
				}
				rates[flush][nodes] = append(rates[flush][nodes], r.mbps())
				fmt.Printf("round %d: %d nodes, %s: %.0f MB/s\n", round+1, nodes, flush, r.mbps())
			}
		}
	}
	text := clusterTable(rates, b.rounds, b.replayBytes)
	fmt.Print(text)
	if b.doc == "" {
		return nil
	}
	return harness.WriteSection(b.doc, "cluster", text)
}

// produceTo starts so many nodes, sends 1 KiB records to the leader, and ends the nodes.
func (b *bench) produceTo(ctx context.Context, nodes int, flush string) (result, error) {
	dir := filepath.Join(b.work, "cluster")
	if err := os.RemoveAll(dir); err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var first string // node-to-node address
	var leader *harness.Broker
	for i := range nodes {
		listen, err := freeAddr()
		if err != nil {
			return result{}, err
		}
		id := fmt.Sprint("n", i+1)
		args := []string{"--node-id", id, "--node-listen", listen}
		if i > 0 {
			args = append(args, "--join", first)
		}
		s, err := harness.Polylog{Bin: b.bin, Dir: filepath.Join(dir, id), Flush: flush, Args: args}.Start(ctx)
		if err != nil {
			return result{}, err
		}
		defer s.Kill()
		if i == 0 {
			first, leader = listen, s
		}
	}
	if err := b.healthy(ctx, first); err != nil {
		return result{}, err
	}
	if err := createTopic(ctx, leader.Addr, "t", partitions); err != nil {
		return result{}, err
	}
	if _, err := replayProduce(leader.Addr, "t", 1024, b.replayBytes/16); err != nil { // warm
		return result{}, err
	}
	return replayProduce(leader.Addr, "t", 1024, b.replayBytes)
}

// healthy waits until every node votes and is ready.
func (b *bench) healthy(ctx context.Context, node string) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := exec.CommandContext(ctx, b.bin, "cluster", "health", "--node", node).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the cluster does not get well: %s", out)
		}
	}
}

// freeAddr is a loopback address at which nobody listened a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func clusterTable(rates map[string]map[int][]float64, rounds int, bytes int64) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%d rounds in turn, %d MiB of 1 KiB records a run, acks=all, to the leader; medians, and the least and most.\n\n", rounds, bytes>>20)
	fmt.Fprintf(&t, "| flush | one node, MB/s | three nodes, MB/s | ratio | goal |\n| --- | --- | --- | --- | --- |\n")
	for _, flush := range []string{"sync", "os"} {
		one, three := rates[flush][1], rates[flush][3]
		goal := "-"
		if flush == "sync" {
			goal = fmt.Sprintf("%.2f", clusterGoal)
		}
		fmt.Fprintf(&t, "| `%s` | %s | %s | %.2f | %s |\n", flush, spread(one), spread(three), middle(three)/middle(one), goal)
	}
	return t.String()
}

func middle(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

func spread(of []float64) string {
	return fmt.Sprintf("%.0f (%.0f–%.0f)", middle(of), slices.Min(of), slices.Max(of))
}
