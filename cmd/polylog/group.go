package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newGroup(p *process) *cobra.Command {
	b := &brokerFlags{process: p}
	cmd := &cobra.Command{
		Use: "group", Short: "List, describe, reset and delete consumer groups", Args: cobra.NoArgs,
		RunE: verbMissing,
	}
	b.add(cmd)
	cmd.AddCommand(groupList(b), groupDescribe(b), groupReset(b), groupDelete(b))
	completeArgs(cmd, b.groups(), "describe", "reset", "delete")
	return cmd
}

func groupList(b *brokerFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List groups, their state and type", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.admin(cmd.Context(), func(ctx context.Context, c *kadm.Client) error {
				groups, err := c.ListGroups(ctx)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(b.process.out, 0, 0, 2, ' ', 0)
				_, _ = fmt.Fprintln(w, "GROUP\tSTATE\tTYPE")
				for _, g := range groups.Sorted() {
					_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", g.Group, g.State, g.GroupType)
				}
				return w.Flush()
			})
		},
	}
}

func groupDescribe(b *brokerFlags) *cobra.Command {
	return &cobra.Command{
		Use: "describe NAME...", Short: "Show members, positions and lag", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return b.admin(cmd.Context(), func(ctx context.Context, c *kadm.Client) error {
				for _, n := range names {
					if err := b.describeGroup(ctx, c, n); err != nil {
						return refused("describe group", n, err, "")
					}
				}
				return nil
			})
		},
	}
}

// groupInfo is what both of Kafka's group protocols tell of a group.
type groupInfo struct {
	state, protocol string
	members         int
	owners          map[partition]string // the member that reads a partition: client id and host
}

// groupMembers asks by the classic protocol first, which knows groups without members,
// too, and then by that of KIP-848.
func groupMembers(ctx context.Context, c *kadm.Client, name string) (groupInfo, error) {
	info := groupInfo{owners: map[partition]string{}}
	classic, err := c.DescribeGroups(ctx, name)
	if err != nil {
		return info, err
	}
	g := classic[name]
	if g.Err == nil {
		info.state, info.protocol, info.members = g.State, cmp.Or(g.Protocol, "none"), len(g.Members)
		for _, m := range g.Members {
			assigned, ok := m.Assigned.AsConsumer()
			if !ok {
				continue // such as one of Connect, which reads no partitions
			}
			for _, t := range assigned.Topics {
				for _, p := range t.Partitions {
					info.owners[partition{t.Topic, p}] = m.ClientID + "@" + m.ClientHost
				}
			}
		}
		return info, nil
	}
	if !errors.Is(g.Err, kerr.GroupIDNotFound) {
		return info, g.Err
	}
	newer, err := c.DescribeConsumerGroups(ctx, name)
	if err != nil {
		return info, err
	}
	n := newer[name]
	info.state, info.protocol, info.members = n.State, n.AssignorName, len(n.Members)
	for _, m := range n.Members {
		m.Assignment.Each(func(topic string, p int32) {
			info.owners[partition{topic, p}] = m.ClientID + "@" + m.ClientHost
		})
	}
	return info, n.Err
}

func (b *brokerFlags) describeGroup(ctx context.Context, c *kadm.Client, name string) error {
	info, err := groupMembers(ctx, c, name)
	if err != nil {
		return err
	}
	committed, err := c.FetchOffsets(ctx, name)
	if err != nil {
		return err
	}
	shown := map[partition]bool{}
	topics := kadm.TopicsSet{}
	add := func(topic string, p int32) {
		shown[partition{topic, p}] = true
		topics.Add(topic, p)
	}
	committed.Each(func(o kadm.OffsetResponse) { add(o.Topic, o.Partition) })
	for at := range info.owners {
		add(at.topic, at.id)
	}
	var ends kadm.ListedOffsets
	if len(topics) > 0 { // none would mean all
		if ends, err = c.ListEndOffsets(ctx, topics.Topics()...); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(b.process.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "group %s\tstate %s\tassignor %s\tmembers %d\n\n", name, info.state, info.protocol, info.members)
	_, _ = fmt.Fprintln(w, "TOPIC\tPARTITION\tPOSITION\tEND\tLAG\tMEMBER")
	total := int64(0)
	for _, at := range sortedPartitions(shown) {
		position, lag := "-", "-"
		end, ok := ends.Lookup(at.topic, at.id)
		if o, has := committed.Lookup(at.topic, at.id); has && o.At >= 0 {
			position = strconv.FormatInt(o.At, 10)
			if behind := end.Offset - o.At; ok && end.Err == nil {
				lag = strconv.FormatInt(behind, 10)
				total += behind
			}
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\n", at.topic, at.id, position, end.Offset, lag, cmp.Or(info.owners[at], "-"))
	}
	_, _ = fmt.Fprintf(w, "\t\t\t\t%d\ttotal\n\n", total)
	return w.Flush()
}

func sortedPartitions(set map[partition]bool) []partition {
	all := make([]partition, 0, len(set))
	for at := range set {
		all = append(all, at)
	}
	slices.SortFunc(all, func(a, b partition) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id))
	})
	return all
}

func groupDelete(b *brokerFlags) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Delete groups without members, and their positions", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return b.admin(cmd.Context(), func(ctx context.Context, c *kadm.Client) error {
				gone, err := c.DeleteGroups(ctx, names...)
				if err != nil {
					return err
				}
				for _, n := range names {
					err = errors.Join(err, refused("delete group", n, gone[n].Err, ""))
				}
				return err
			})
		},
	}
}
