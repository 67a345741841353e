package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// benchFlags say what load a benchmark makes.
type benchFlags struct {
	apiFlags
	broker   string // of Kafka's protocol
	protocol string
	messages int64 // 0: until duration is over
	duration time.Duration
	size     int // bytes of a value
	batch    int // messages of a request
	clients  int
	rate     int // messages a second; 0: as fast as they go
}

func newBench(p *process) *cobra.Command {
	f := &benchFlags{apiFlags: apiFlags{process: p}}
	cmd := f.group("bench", "Measure publishing to a running broker, and reading from it", f.produce(), f.consume())
	cmd.Long = "bench makes load from this machine and prints rates and times. What it publishes stays in the topic. The figures\n" +
		"are of client, network and broker together: docs/benchmarks.md has those of the broker."
	fs := cmd.PersistentFlags()
	fs.StringVarP(&f.broker, "broker", "b", "", "broker's Kafka address, with --protocol kafka")
	fs.StringVar(&f.protocol, "protocol", "http", "http or kafka")
	fs.Int64VarP(&f.messages, "messages", "n", 0, "how many messages; 0: as many as in --duration")
	fs.DurationVarP(&f.duration, "duration", "d", 10*time.Second, "how long, where --messages does not say how many")
	f.completeArgs(cmd, "topics", "produce", "consume")
	return cmd
}

// check refuses what cannot be measured.
func (f *benchFlags) check() error {
	switch {
	case f.protocol != "http" && f.protocol != "kafka":
		return usageError{fmt.Errorf("--protocol: %q is neither http nor kafka", f.protocol)}
	case f.messages < 0 || f.messages == 0 && f.duration <= 0:
		return usageError{errors.New("say how much: --messages or --duration, above 0")}
	case f.size < 0 || f.size > 64<<20 || f.batch < 1 || f.batch > 10_000 || f.clients < 1 || f.clients > 10_000 || f.rate < 0:
		return usageError{errors.New("--size is 0 to 67108864, --batch and --clients are 1 to 10000, --rate is 0 or more")}
	}
	return nil
}

// result is what a benchmark measured. Times are of one request, or of one message until it was read.
type result struct {
	Messages int64   `json:"messages"`
	Bytes    int64   `json:"bytes"` // of values
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"messagesPerSecond"`
	Times    *times  `json:"milliseconds,omitempty"`
}

// report prints what was measured.
func (f *benchFlags) report(messages, bytes int64, took time.Duration, h *histogram) error {
	seconds := max(took.Seconds(), 1e-9)
	r := result{messages, bytes, seconds, float64(messages) / seconds, h.times()}
	return f.show(&r, func(w io.Writer) {
		row(w, "messages", r.Messages)
		row(w, "seconds", fmt.Sprintf("%.2f", r.Seconds))
		row(w, "messages/s", fmt.Sprintf("%.0f", r.Rate))
		row(w, "MiB/s", fmt.Sprintf("%.2f", float64(r.Bytes)/seconds/(1<<20)))
		if t := r.Times; t != nil {
			row(w, "time, ms", fmt.Sprintf("p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f", t.P50, t.P90, t.P99, t.P999, t.Max))
		}
	})
}

func (f *benchFlags) produce() *cobra.Command {
	cmd := f.verb("produce TOPIC", "Publish messages of random bytes, and time each request", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if err := f.runProduce(ctx, c, args[0]); err != nil {
			return fmt.Errorf("publish to %s: %w", args[0], err)
		}
		return nil
	})
	addOutput(cmd, &f.output)
	fs := cmd.Flags()
	fs.IntVar(&f.size, "size", 100, "bytes of a message")
	fs.IntVar(&f.batch, "batch", 1, "messages of a request")
	fs.IntVarP(&f.clients, "clients", "c", 1, "clients, each with one request at a time")
	fs.IntVar(&f.rate, "rate", 0, "messages a second of all clients together; 0: as many as they can")
	return cmd
}

func (f *benchFlags) consume() *cobra.Command {
	live := false
	cmd := f.verb("consume TOPIC", "Read what is there, or with --live what comes, and time it", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		f.batch, f.clients = 1, 1
		if err := f.check(); err != nil {
			return err
		}
		if err := f.runConsume(ctx, c, args[0], live); err != nil {
			return fmt.Errorf("read %s: %w", args[0], err)
		}
		return nil
	})
	addOutput(cmd, &f.output)
	cmd.Flags().BoolVar(&live, "live", false, "messages that come from now on; the time is that from a message's timestamp, by the clocks of both machines")
	return cmd
}
