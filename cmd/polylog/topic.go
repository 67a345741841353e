package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newTopic(p *process) *cobra.Command {
	b := &brokerFlags{process: p}
	cmd := &cobra.Command{
		Use: "topic", Short: "List, create, describe, alter and delete topics", Args: cobra.NoArgs,
		RunE: verbMissing,
	}
	b.add(cmd)
	cmd.AddCommand(topicList(b), topicCreate(b), topicDescribe(b), topicAlter(b), topicDelete(b))
	completeArgs(cmd, b.topics(), "describe", "alter", "delete")
	return cmd
}

func topicList(b *brokerFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List topics and their number of partitions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.admin(cmd.Context(), func(ctx context.Context, c *kadm.Client) error {
				topics, err := c.ListTopics(ctx)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(b.process.out, 0, 0, 2, ' ', 0)
				_, _ = fmt.Fprintln(w, "TOPIC\tPARTITIONS")
				for _, t := range topics.Sorted() {
					_, _ = fmt.Fprintf(w, "%s\t%d\n", t.Topic, len(t.Partitions))
				}
				return w.Flush()
			})
		},
	}
}

func topicCreate(b *brokerFlags) *cobra.Command {
	var partitions int32
	var replicas int16
	var set []string
	cmd := &cobra.Command{
		Use: "create NAME...", Short: "Create topics", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			changes, err := configChanges(set, nil)
			if err != nil {
				return err
			}
			configs := map[string]*string{}
			for _, c := range changes {
				configs[c.Name] = c.Value
			}
			return b.admin(cmd.Context(), func(ctx context.Context, c *kadm.Client) error {
				made, err := c.CreateTopics(ctx, partitions, replicas, configs, names...)
				if err != nil {
					return err
				}
				for _, n := range names {
					err = errors.Join(err, refused("create topic", n, made[n].Err, made[n].ErrMessage))
				}
				return err
			})
		},
	}
	cmd.Flags().Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 takes the broker's default")
	cmd.Flags().Int16VarP(&replicas, "replication-factor", "r", -1, "replication factor; every node has everything, whatever it says")
	cmd.Flags().StringArrayVarP(&set, "config", "c", nil, "setting of the topic, name=value; may be repeated")
	return cmd
}

func topicDescribe(b *brokerFlags) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "describe NAME...", Short: "Show partitions, offsets, sizes and the settings that are no defaults", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return b.admin(cmd.Context(), func(ctx context.Context, c *kadm.Client) error {
				for _, n := range names {
					if err := b.describe(ctx, c, n, all); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show every setting, defaults too")
	return cmd
}

func (b *brokerFlags) describe(ctx context.Context, c *kadm.Client, name string, all bool) error {
	topics, err := c.ListTopics(ctx, name)
	if err != nil {
		return err
	}
	topic := topics[name]
	if err := refused("describe topic", name, topic.Err, ""); err != nil {
		return err
	}
	starts, err := c.ListStartOffsets(ctx, name)
	if err != nil {
		return err
	}
	ends, err := c.ListEndOffsets(ctx, name)
	if err != nil {
		return err
	}
	described, err := c.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return err
	}
	asked := kadm.TopicsSet{}
	asked.Add(name, topic.Partitions.Numbers()...)
	sizes, err := c.DescribeAllLogDirs(ctx, asked)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.process.out, 0, 0, 2, ' ', 0)
	id := base64.RawURLEncoding.EncodeToString(topic.ID[:]) // as Kafka's tools show it
	_, _ = fmt.Fprintf(w, "topic %s\tid %s\n\nPARTITION\tLEADER\tEPOCH\tREPLICAS\tSTART\tEND\tBYTES\n", name, id)
	for _, p := range topic.Partitions.Sorted() {
		size, _ := sizes[p.Leader].LookupPartition(name, p.Partition)
		start, _ := starts.Lookup(name, p.Partition)
		end, _ := ends.Lookup(name, p.Partition)
		_, _ = fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%d\t%d\t%d\n", p.Partition, p.Leader, p.LeaderEpoch,
			strings.Trim(fmt.Sprint(p.Replicas), "[]"), start.Offset, end.Offset, size.Size)
	}
	_, _ = fmt.Fprintln(w, "\nSETTING\tVALUE\tFROM")
	for _, r := range described {
		slices.SortFunc(r.Configs, func(a, b kadm.Config) int { return strings.Compare(a.Key, b.Key) })
		for _, s := range r.Configs {
			from := "default"
			if s.Source == kmsg.ConfigSourceDefaultConfig && !all {
				continue
			}
			if s.Source != kmsg.ConfigSourceDefaultConfig {
				from = strings.ToLower(strings.TrimSuffix(strings.ReplaceAll(s.Source.String(), "_", " "), "_CONFIG"))
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", s.Key, s.MaybeValue(), from)
		}
	}
	return w.Flush() // reports what the writes before it met
}

func topicAlter(b *brokerFlags) *cobra.Command {
	var partitions int
	var set, reset []string
	cmd := &cobra.Command{
		Use: "alter NAME...", Short: "Add partitions, change settings", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			changes, err := configChanges(set, reset)
			if err != nil {
				return err
			}
			if partitions == 0 && len(changes) == 0 {
				return usageError{errors.New("nothing to alter: give --partitions, --config or --reset")}
			}
			return b.admin(cmd.Context(), func(ctx context.Context, c *kadm.Client) error {
				if len(changes) > 0 {
					altered, err := c.AlterTopicConfigs(ctx, changes, names...)
					for _, a := range altered {
						err = errors.Join(err, refused("alter topic", a.Name, a.Err, a.ErrMessage))
					}
					if err != nil {
						return err
					}
				}
				if partitions == 0 {
					return nil
				}
				grown, err := c.UpdatePartitions(ctx, partitions, names...)
				for _, n := range names {
					err = errors.Join(err, refused("alter topic", n, grown[n].Err, grown[n].ErrMessage))
				}
				return err
			})
		},
	}
	cmd.Flags().IntVarP(&partitions, "partitions", "p", 0, "new number of partitions, more than there are")
	cmd.Flags().StringArrayVarP(&set, "config", "c", nil, "setting to change, name=value; may be repeated")
	cmd.Flags().StringArrayVar(&reset, "reset", nil, "setting to give its default again; may be repeated")
	return cmd
}

func topicDelete(b *brokerFlags) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME...", Short: "Delete topics and everything in them", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return b.admin(cmd.Context(), func(ctx context.Context, c *kadm.Client) error {
				gone, err := c.DeleteTopics(ctx, names...)
				if err != nil {
					return err
				}
				for _, n := range names {
					err = errors.Join(err, refused("delete topic", n, gone[n].Err, gone[n].ErrMessage))
				}
				return err
			})
		},
	}
}

// configChanges reads name=value pairs to set and names to reset.
func configChanges(set, reset []string) ([]kadm.AlterConfig, error) {
	var changes []kadm.AlterConfig
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--config: %q is not name=value", s)}
		}
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	for _, name := range reset {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	return changes, nil
}
