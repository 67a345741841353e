// Command amqp compares Polylog with RabbitMQ, with RabbitMQ's own load generator, in the same run:
// the brokers take turns (A B A B), every number is a median over the rounds, and each rate has the
// server's CPU time and resident memory beside it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"polylog/bench/command"
	"polylog/bench/prime"
	"polylog/compat/harness"
)

type bench struct {
	bin, libs, work, doc, only string
	rounds, seconds            int
	backlog, idle              int
	table                      *table
}

func main() {
	var b bench
	flag.StringVar(&b.bin, "bin", "../../bin/polylog", "Polylog's binary")
	flag.StringVar(&b.libs, "libs", "../../.cache/amqp/perf-test", "folder of the load generator's jars")
	flag.StringVar(&b.work, "work", "../../bench-data", "folder for data; its disk is what is measured")
	flag.StringVar(&b.doc, "doc", "", "file whose section is written anew, as Markdown")
	flag.StringVar(&b.only, "only", "", "comma-separated rows (1-1, 8-8, paced, one, idle, backlog); empty is all")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds; every number is the median of these")
	flag.IntVar(&b.seconds, "seconds", 20, "seconds of each run that count, after its warm-up")
	flag.IntVar(&b.idle, "idle", 100_000, "idle queues; RabbitMQ gets a fiftieth of them")
	flag.IntVar(&b.backlog, "backlog", 10_000_000, "messages that wait in one queue")
	flag.Parse()
	command.Main(b.run)
}

func (b *bench) want(part string) bool { return command.Wanted(b.only, part) }

// side is one column of the table: a broker and the type of its queues.
type side struct {
	name   string
	broker string
	quorum bool
}

var sides = []side{{"polylog", "polylog", false}, {"classic", "rabbitmq", false}, {"quorum", "rabbitmq", true}}

func (s side) start(ctx context.Context, bin, dir string) (*harness.Broker, error) {
	if s.broker == "polylog" {
		return harness.Polylog{Bin: bin, Dir: dir}.Start(ctx)
	}
	return harness.RabbitMQ{Dir: dir}.Start(ctx)
}

func (b *bench) run(ctx context.Context) error {
	if err := command.Absolute(&b.bin, &b.libs, &b.work); err != nil {
		return err
	}
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return err
	}
	b.table = &table{samples: map[[2]string][]sample{}}
	for round := 1; round <= b.rounds; round++ {
		fmt.Printf("round %d of %d\n", round, b.rounds)
		for _, s := range sides {
			if err := b.contend(ctx, s, round); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		b.table.rounds = round
		if err := b.write(); err != nil { // what there is, should the rest not come
			return err
		}
	}
	fmt.Print(b.table.markdown(b))
	return nil
}

func (b *bench) write() error {
	if b.doc == "" {
		return nil
	}
	return harness.WriteSection(b.doc, "make bench-amqp", b.table.markdown(b))
}

// contend starts one broker with no data and takes one sample of each row.
func (b *bench) contend(ctx context.Context, s side, round int) (err error) {
	if err := prime.Fill(b.work); err != nil {
		return err
	}
	dir := filepath.Join(b.work, "amqp-"+s.name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	broker, err := s.start(ctx, b.bin, dir)
	if err != nil {
		return err
	}
	defer func() {
		broker.Kill()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	for _, load := range loads {
		if !b.want(load.name) {
			continue
		}
		if err := b.perfTest(ctx, s, broker, load); err != nil {
			return fmt.Errorf("%s: %w", load.name, err)
		}
	}
	if b.want("idle") && !s.quorum {
		if err := b.idleQueues(s, broker); err != nil {
			return fmt.Errorf("idle queues: %w", err)
		}
	}
	// Only ours, and once: it takes minutes and fills the disk.
	if b.want("backlog") && s.broker == "polylog" && round == 1 {
		return b.deepQueue(ctx, s, broker)
	}
	return nil
}
