package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

type resetFlags struct {
	*brokerFlags
	to         string
	topics     []string
	partitions []int32
	dryRun     bool
}

func groupReset(b *brokerFlags) *cobra.Command {
	f := &resetFlags{brokerFlags: b}
	cmd := &cobra.Command{
		Use: "reset NAME", Short: "Set the positions of a group without members", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&f.to, "to", "", "start, end, an offset, or a time such as 2026-01-31T12:00:00Z")
	cmd.Flags().StringArrayVarP(&f.topics, "topic", "t", nil, "topic; may be repeated; default those that the group has positions on")
	cmd.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "partitions, separated by commas; default all of them")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only print what would be set")
	_ = cmd.RegisterFlagCompletionFunc("topic", b.topics())
	return cmd
}

func (f *resetFlags) run(ctx context.Context, group string) error {
	if f.to == "" {
		return usageError{errors.New("--to is missing: start, end, an offset, or a time such as 2026-01-31T12:00:00Z")}
	}
	if _, err := startOffset("--to", f.to); err != nil {
		return err
	}
	return f.admin(ctx, func(ctx context.Context, c *kadm.Client) error {
		committed, err := c.FetchOffsets(ctx, group)
		if err != nil {
			return refused("reset group", group, err, "")
		}
		topics := f.topics
		if len(topics) == 0 {
			topics = committed.Partitions().Topics()
		}
		if len(topics) == 0 {
			return fmt.Errorf("reset group %s: it has no positions; name topics with --topic", group)
		}
		// A position outside of what is there would be no position.
		starts, err := c.ListStartOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		ends, err := c.ListEndOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		goal := starts
		if at, e := time.Parse(time.RFC3339, f.to); e == nil {
			goal, err = c.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
		} else if f.to == "end" {
			goal = ends
		}
		if err != nil {
			return err
		}
		offsets := kadm.Offsets{}
		for _, o := range ends.Offsets().Sorted() {
			if !f.wants(o.Partition) {
				continue
			}
			start, _ := starts.Lookup(o.Topic, o.Partition)
			at, _ := goal.Lookup(o.Topic, o.Partition)
			if n, err := strconv.ParseInt(f.to, 10, 64); err == nil {
				at.Offset = n
			}
			offsets.AddOffset(o.Topic, o.Partition, min(max(at.Offset, start.Offset), o.At), -1)
		}
		ends.Each(func(o kadm.ListedOffset) {
			err = errors.Join(err, refused("reset group "+group+": topic", o.Topic, o.Err, ""))
		})
		if err != nil {
			return err
		}
		if len(offsets) == 0 {
			return fmt.Errorf("reset group %s: no such partitions", group)
		}
		if !f.dryRun {
			if err := c.CommitAllOffsets(ctx, group, offsets); err != nil {
				return refused("reset group", group, err, "")
			}
		}
		return f.print(committed, offsets)
	})
}

// wants says whether a partition is to be reset.
func (f *resetFlags) wants(p int32) bool {
	return len(f.partitions) == 0 || slices.Contains(f.partitions, p)
}

func (f *resetFlags) print(was kadm.OffsetResponses, is kadm.Offsets) error {
	w := tabwriter.NewWriter(f.process.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TOPIC\tPARTITION\tWAS\tIS")
	for _, o := range is.Sorted() {
		before := "-"
		if b, ok := was.Lookup(o.Topic, o.Partition); ok && b.At >= 0 {
			before = fmt.Sprint(b.At)
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%d\n", o.Topic, o.Partition, before, o.At)
	}
	return w.Flush()
}
