package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"polylog/compat/harness"
)

// A cluster of three against one node, all on this machine: they share its cores and its disk,
// and each writes everything, so only the ratio says something. The leader is written to, as
// Kafka clients do.

// replicatedRow is one line of the table: what is measured at one node and at three.
type replicatedRow struct {
	name, unit, flush string
	goal              float64 // what the ratio should be at least; 0 is none
	run               func(ctx context.Context, b *bench, leader *harness.Broker) (float64, error)
}

var replicatedRows = []replicatedRow{
	{"Kafka's ProducerPerformance, 1 KiB, acks=all", "MB/s", "sync", 0.4, officialReplicated},
	{"Kafka's ProducerPerformance, 1 KiB, acks=all", "MB/s", "os", 0, officialReplicated},
	{"Kafka produce by the replayer, 1 KiB, acks=all", "MB/s", "sync", 0.4, produceReplicated},
	{"Kafka produce by the replayer, 1 KiB, acks=all", "MB/s", "os", 0, produceReplicated},
	{"AMQP confirms, 1 KiB, 8 publishers of 200", "1/s", "sync", 0.5, confirmReplicated},
	{"AMQP confirms, 1 KiB, 8 publishers of 200", "1/s", "os", 0, confirmReplicated},
}

// replicated measures each row at one node and at three, in turn, and writes its section.
func (b *bench) replicated(ctx context.Context) error {
	if err := b.prepare(); err != nil {
		return err
	}
	rates := make([]map[int][]float64, len(replicatedRows))
	for round := range b.rounds {
		for i, row := range replicatedRows {
			if rates[i] == nil {
				rates[i] = map[int][]float64{}
			}
			for _, nodes := range []int{1, 3} {
				rate, err := b.measureAt(ctx, nodes, row)
				if err != nil {
					return fmt.Errorf("%d nodes, %s, %s: %w", nodes, row.name, row.flush, err)
				}
				rates[i][nodes] = append(rates[i][nodes], rate)
				fmt.Printf("round %d: %d nodes, %s, %s: %.0f %s\n", round+1, nodes, row.name, row.flush, rate, row.unit)
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

// measureAt starts so many nodes, measures at the leader, and ends the nodes.
func (b *bench) measureAt(ctx context.Context, nodes int, row replicatedRow) (float64, error) {
	dir := filepath.Join(b.work, "cluster")
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var first string // node-to-node address
	var leader *harness.Broker
	for i := range nodes {
		listen, err := freeAddr()
		if err != nil {
			return 0, err
		}
		id := fmt.Sprint("n", i+1)
		args := []string{"--node-id", id, "--node-listen", listen}
		if i > 0 {
			args = append(args, "--join", first)
		}
		s, err := harness.Polylog{Bin: b.bin, Dir: filepath.Join(dir, id), Flush: row.flush, Args: args}.Start(ctx)
		if err != nil {
			return 0, err
		}
		defer s.Kill()
		if i == 0 {
			first, leader = listen, s
		}
	}
	if err := b.healthy(ctx, first); err != nil {
		return 0, err
	}
	return row.run(ctx, b, leader)
}

func produceReplicated(ctx context.Context, b *bench, leader *harness.Broker) (float64, error) {
	if err := createTopic(ctx, leader.Addr, "t", partitions); err != nil {
		return 0, err
	}
	if _, err := replayProduce(leader.Addr, "t", 1024, b.replayBytes/16); err != nil { // warm
		return 0, err
	}
	r, err := replayProduce(leader.Addr, "t", 1024, b.replayBytes)
	return r.mbps(), err
}

// officialReplicated is what Kafka's own producer sends, from one JVM, as its tool tells.
func officialReplicated(ctx context.Context, b *bench, leader *harness.Broker) (float64, error) {
	if err := createTopic(ctx, leader.Addr, "t", partitions); err != nil {
		return 0, err
	}
	r, err := b.officialProduce(ctx, leader.Addr, "t", b.officialRecords)
	return r.mbps(), err
}

// confirmReplicated publishes persistent messages to eight durable queues, each over a connection of
// its own with 200 of them unconfirmed, a sixteenth of the bytes of a Kafka run.
func confirmReplicated(ctx context.Context, b *bench, leader *harness.Broker) (float64, error) {
	const publishers, window, size = 8, 200, 1024
	each := int(b.replayBytes / 16 / size / publishers)
	var rate float64
	for _, n := range []int{each / 8, each} { // the first warms
		begin := time.Now()
		g, ctx := errgroup.WithContext(ctx)
		for i := range publishers {
			g.Go(func() error { return confirms(ctx, leader.AMQP, fmt.Sprint("q", i), n, window, make([]byte, size)) })
		}
		if err := g.Wait(); err != nil {
			return 0, err
		}
		rate = float64(publishers*n) / time.Since(begin).Seconds()
	}
	return rate, nil
}

// confirms publishes n messages to a queue and waits until all are confirmed.
func confirms(ctx context.Context, addr, queue string, n, window int, body []byte) error {
	conn, err := amqp.Dial("amqp://guest:guest@" + addr + "/")
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		return err
	}
	under := make(chan *amqp.DeferredConfirmation, window)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for c := range under {
			if ok, err := c.WaitContext(ctx); err != nil || !ok {
				return fmt.Errorf("not confirmed: %w", errors.Join(err, ctx.Err()))
			}
		}
		return nil
	})
	g.Go(func() error {
		defer close(under)
		for range n {
			c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
			if err != nil {
				return err
			}
			select {
			case under <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return g.Wait()
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

func clusterTable(rates []map[int][]float64, rounds int, bytes int64) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%d rounds in turn, %d MiB of the replayer's records and a sixteenth of that in AMQP messages a run, to the leader; medians, and the least and most.\n\n", rounds, bytes>>20)
	fmt.Fprintf(&t, "| what | flush | one node | three nodes | ratio | goal |\n| --- | --- | --- | --- | --- | --- |\n")
	for i, row := range replicatedRows {
		one, three := rates[i][1], rates[i][3]
		goal := "-"
		if row.goal > 0 {
			goal = fmt.Sprintf("%.2f", row.goal)
		}
		fmt.Fprintf(&t, "| %s | `%s` | %s %s | %s %s | %.2f | %s |\n", row.name, row.flush, spread(one), row.unit, spread(three), row.unit, middle(three)/middle(one), goal)
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
