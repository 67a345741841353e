package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/cmd/polylog/rest"
)

type subFlags struct {
	brokerFlags
	group, from, output string
	count               int
	toEnd               bool
}

func newSub(p *process) *cobra.Command {
	f := &subFlags{brokerFlags: brokerFlags{process: p}}
	cmd := &cobra.Command{
		Use:   "sub TOPIC...",
		Short: "Print messages as they come",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, topics []string) error {
			return f.run(cmd.Context(), topics, cmd.Flags().Changed("from"))
		},
	}
	f.add(cmd)
	f.addServer(cmd)
	cmd.Flags().StringVarP(&f.group, "group", "g", "", "consumer group to join: starts where the group left off, and commits")
	cmd.Flags().StringVar(&f.from, "from", "end", "start, end, an offset, or a time such as 2026-01-31T12:00:00Z; a group's own position goes before it")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text: the value; json: one object per message")
	cmd.Flags().IntVarP(&f.count, "count", "n", 0, "stop after so many messages; 0 never")
	cmd.Flags().BoolVarP(&f.toEnd, "to-end", "e", false, "stop at what was the end when it was called; --from is then start unless given")
	cmd.ValidArgsFunction = f.topics()
	_ = cmd.RegisterFlagCompletionFunc("group", f.groups())
	return cmd
}

// startOffset reads a flag that says where to begin.
func startOffset(flag, from string) (kgo.Offset, error) {
	o := kgo.NewOffset()
	if n, err := strconv.ParseInt(from, 10, 64); err == nil && n >= 0 {
		return o.At(n), nil
	}
	if t, err := time.Parse(time.RFC3339, from); err == nil {
		return o.AfterMilli(t.UnixMilli()), nil
	}
	switch from {
	case "start":
		return o.AtStart(), nil
	case "end":
		return o.AtEnd(), nil
	}
	return o, usageError{fmt.Errorf("%s: %q is none of start, end, an offset, a time such as 2026-01-31T12:00:00Z", flag, from)}
}

func (f *subFlags) run(ctx context.Context, topics []string, fromGiven bool) error {
	if f.output != "text" && f.output != "json" {
		return usageError{fmt.Errorf("--output: %q is none of text, json", f.output)}
	}
	if f.toEnd && !fromGiven {
		f.from = "start"
	}
	start, err := startOffset("--from", f.from)
	if err != nil {
		return err
	}
	if f.toEnd && f.group != "" {
		return usageError{errors.New("--to-end and --group exclude each other: a group's members see only a part")}
	}
	if len(f.servers) > 0 {
		if f.group != "" {
			return usageError{errors.New("--group is of Kafka's protocol, not of --server; polylog subscription pull shares a topic over HTTP")}
		}
		return f.http().call(ctx, func(ctx context.Context, c *rest.Client) error { return f.overHTTP(ctx, c, topics) })
	}
	opts := []kgo.Opt{kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(start)}
	if f.group != "" {
		opts = append(opts, kgo.ConsumerGroup(f.group), kgo.AutoCommitMarks())
	}
	ctx, client, err := f.loggedIn(ctx, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	left, err := f.leftToRead(ctx, client, topics)
	if err != nil {
		return err
	}
	err = f.print(ctx, client, left)
	if f.group != "" && loggedOut(ctx) == nil {
		// The context may have ended by a signal; what was printed counts all the same.
		commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.timeout)
		defer cancel()
		if e := client.CommitMarkedOffsets(commit); e != nil {
			err = errors.Join(err, fmt.Errorf("commit positions of group %s: %w", f.group, plain(e)))
		}
	}
	return err
}

// partition names one partition of the topics read.
type partition struct {
	topic string
	id    int32
}

// leftToRead is, with --to-end, the end offset of every partition that has messages.
func (f *subFlags) leftToRead(ctx context.Context, client *kgo.Client, topics []string) (map[partition]int64, error) {
	if !f.toEnd {
		return nil, nil
	}
	admin := kadm.NewClient(client)
	var starts, ends kadm.ListedOffsets
	err := f.untilReached(ctx, func() (err error) {
		if starts, err = f.starts(ctx, admin, topics); err == nil {
			ends, err = admin.ListEndOffsets(ctx, topics...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	left := map[partition]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if s, ok := starts.Lookup(o.Topic, o.Partition); o.Err != nil {
			err = errors.Join(err, refused("read topic", o.Topic, o.Err, ""))
		} else if !ok || o.Offset > s.Offset {
			left[partition{o.Topic, o.Partition}] = o.Offset
		}
	})
	return left, err
}

// starts is where reading begins, for the partitions where the broker knows it better.
func (f *subFlags) starts(ctx context.Context, admin *kadm.Client, topics []string) (kadm.ListedOffsets, error) {
	if t, err := time.Parse(time.RFC3339, f.from); err == nil {
		return admin.ListOffsetsAfterMilli(ctx, t.UnixMilli(), topics...)
	}
	if f.from == "end" {
		return admin.ListEndOffsets(ctx, topics...)
	}
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if n, e := strconv.ParseInt(f.from, 10, 64); e == nil {
		for _, partitions := range starts {
			for p, o := range partitions {
				o.Offset = max(o.Offset, n)
				partitions[p] = o
			}
		}
	}
	return starts, err
}

// print writes messages until there have been enough, ctx ends, or reading fails.
func (f *subFlags) print(ctx context.Context, client *kgo.Client, left map[partition]int64) error {
	out := bufio.NewWriter(f.process.out)
	for printed := 0; !f.toEnd || len(left) > 0; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return errors.Join(out.Flush(), loggedOut(ctx)) // or asked to stop
		}
		for _, e := range fetches.Errors() {
			if err := f.failed(e); err != nil {
				return errors.Join(out.Flush(), err)
			}
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			at := partition{r.Topic, r.Partition}
			end, reading := left[at]
			if f.toEnd && (!reading || r.Offset >= end) {
				delete(left, at)
				continue
			}
			if err := f.write(out, r); err != nil {
				return err
			}
			client.MarkCommitRecords(r)
			if printed++; printed == f.count {
				return out.Flush()
			}
			if r.Offset == end-1 {
				delete(left, at)
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return out.Flush()
}

// failed is the error that ends the verb, nil for one after which the library tries
// again by itself: the group's coordinator is away, or came back without knowing its
// members. So it does after a refused login, until the watch of loggedIn says that it is enough.
func (f *subFlags) failed(e kgo.FetchError) error {
	session := (*kgo.ErrGroupSession)(nil)
	switch {
	case !errors.As(e.Err, &session):
		return refused("read topic", e.Topic, plain(e.Err), "")
	case errors.As(session.Err, new(*net.OpError)), kgo.IsRetryableBrokerErr(session.Err), kerr.IsRetriable(session.Err),
		errors.Is(session.Err, kerr.UnknownMemberID), errors.Is(session.Err, kerr.IllegalGeneration):
		return nil
	case notLoggedIn(session.Err, true) != nil:
		return nil //nolint:nilerr // it is that of a login, which is tried again
	default:
		return refused("join group", f.group, session.Err, "")
	}
}

func (f *subFlags) write(out *bufio.Writer, r *kgo.Record) error {
	if f.output == "text" {
		_, _ = out.Write(r.Value) // a bufio.Writer repeats its error at the next write
		return out.WriteByte('\n')
	}
	return json.NewEncoder(out).Encode(newMessage(r))
}
