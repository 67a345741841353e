package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/cmd/polylog/rest"
)

// maxLine bounds one message from standard input, in bytes.
const maxLine = 64 << 20

type pubFlags struct {
	brokerFlags
	key, keySeparator string
	headers           []string
	partition         int32
	compression       string
}

func newPub(p *process) *cobra.Command {
	f := &pubFlags{brokerFlags: brokerFlags{process: p}}
	cmd := &cobra.Command{
		Use:   "pub TOPIC [MESSAGE...]",
		Short: "Publish messages: the arguments, or else each line of standard input",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keyed := cmd.Flags().Changed("key")
			if len(f.servers) == 0 {
				return f.run(cmd.Context(), args[0], args[1:], keyed)
			}
			if cmd.Flags().Changed("compression") {
				return usageError{errors.New("--compression is of Kafka's protocol, not of --server")}
			}
			return f.http().call(cmd.Context(), func(ctx context.Context, c *rest.Client) error {
				return f.overHTTP(ctx, c, args[0], args[1:], keyed)
			})
		},
	}
	f.add(cmd)
	f.addServer(cmd)
	cmd.Flags().StringVarP(&f.key, "key", "k", "", "key of every message")
	cmd.Flags().StringVarP(&f.keySeparator, "key-separator", "K", "", "text between key and value of each message")
	cmd.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "header of every message, name=value; may be repeated")
	cmd.Flags().Int32VarP(&f.partition, "partition", "p", -1, "partition; -1 chooses by key")
	cmd.Flags().StringVarP(&f.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	cmd.ValidArgsFunction = first(f.topics())
	return cmd
}

func (f *pubFlags) run(ctx context.Context, topic string, messages []string, keyed bool) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[f.compression]
	if !ok {
		return usageError{fmt.Errorf("--compression: %q is none of none, gzip, snappy, lz4, zstd", f.compression)}
	}
	headers, err := f.headerList()
	if err != nil {
		return err
	}
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation()}
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	ctx, client, err := f.loggedIn(ctx, opts...)
	if err != nil {
		return err
	}
	defer client.Close()

	p := newPublisher(ctx, client, f.timeout)
	defer p.stop()
	err = eachMessage(messages, f.process.in, func(line string) error {
		key, value := f.split(line, keyed)
		return p.publish(&kgo.Record{Key: key, Value: value, Headers: headers, Partition: f.partition})
	})
	if e := p.flush(); e != nil {
		err = e
	}
	if why := loginRefused(err); why != nil {
		err = why
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, plain(err))
	}
	return nil
}

// headerList are the headers that the flags say.
func (f *pubFlags) headerList() (all []kgo.RecordHeader, err error) {
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("--header: %q is not name=value", h)}
		}
		all = append(all, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return all, nil
}

// split is the key and the value of a line; the key is nil where there is none.
func (f *pubFlags) split(line string, keyed bool) (key, value []byte) {
	if k, v, ok := strings.Cut(line, f.keySeparator); f.keySeparator != "" && ok {
		return []byte(k), []byte(v)
	}
	if keyed {
		key = []byte(f.key)
	}
	return key, []byte(line)
}

// publisher publishes until the first failure. The library never gives up a record
// that it may have sent, lest it be stored twice; we do, when nothing is answered for
// the time-out.
type publisher struct {
	client     *kgo.Client
	timeout    time.Duration
	ctx        context.Context //nolint:containedctx // of one run of the verb, which the publisher is
	cancel     context.CancelCauseFunc
	silence    *time.Timer
	unanswered atomic.Int64
}

func newPublisher(ctx context.Context, client *kgo.Client, timeout time.Duration) *publisher {
	p := &publisher{client: client, timeout: timeout}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.silence = time.AfterFunc(timeout, func() {
		if p.unanswered.Load() > 0 {
			p.cancel(fmt.Errorf("the broker has not answered for %v; what was under way may or may not be stored", timeout))
		}
	})
	return p
}

func (p *publisher) publish(r *kgo.Record) error {
	if p.unanswered.Add(1) == 1 {
		p.silence.Reset(p.timeout)
	}
	p.client.Produce(p.ctx, r, func(_ *kgo.Record, err error) {
		p.unanswered.Add(-1)
		p.silence.Reset(p.timeout)
		if err != nil {
			p.cancel(err)
		}
	})
	return context.Cause(p.ctx)
}

// flush waits until everything is answered.
func (p *publisher) flush() error {
	err := p.client.Flush(p.ctx)
	if cause := context.Cause(p.ctx); cause != nil {
		return cause
	}
	return err
}

func (p *publisher) stop() {
	p.silence.Stop()
	p.cancel(nil)
}

// eachMessage calls do for each of messages, or for each line of in if there are none.
func eachMessage(messages []string, in io.Reader, do func(string) error) error {
	for _, m := range messages {
		if err := do(m); err != nil {
			return err
		}
	}
	if len(messages) > 0 {
		return nil
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := do(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}
