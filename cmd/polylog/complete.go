package main

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// Names are completed from the broker, where it can be reached; a shell must not wait for one that cannot.

const (
	completeTime = 2 * time.Second
	maxComplete  = 200
)

// completion is what cobra calls for the words that may follow.
type completion = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// completing completes what list finds that begins as the word does, and is not an argument yet.
func completing(list func(ctx context.Context, begun string) []string) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		all := slices.DeleteFunc(list(ctx, begun), func(name string) bool { return !strings.HasPrefix(name, begun) || slices.Contains(args, name) })
		return all[:min(len(all), maxComplete)], cobra.ShellCompDirectiveNoFileComp
	}
}

// names completes names of objects of a kind, as the interface calls its list.
func (a *apiFlags) names(kind string) completion {
	return completing(func(ctx context.Context, begun string) (all []string) {
		if !a.as.silent() {
			return nil
		}
		c, err := a.client()
		if err != nil {
			return nil
		}
		defer c.Close()
		q := url.Values{}
		if begun != "" && kind != "hooks" && kind != "exchanges" {
			q.Set("search", begun)
		}
		_ = c.Each(ctx, c.Path(kind), q, kind, maxComplete, func(one json.RawMessage) error {
			var o struct{ Name, ClientID string } // of a session it is that
			if json.Unmarshal(one, &o) == nil {
				all = append(all, o.Name+o.ClientID)
			}
			return nil
		})
		return all
	})
}

// names completes what list finds by Kafka's protocol.
func (b *brokerFlags) names(list func(context.Context, *kadm.Client) []string) completion {
	return completing(func(ctx context.Context, _ string) []string {
		if !b.as.silent() {
			return nil
		}
		c, err := b.client(ctx)
		if err != nil {
			return nil
		}
		defer c.Close()
		return list(ctx, kadm.NewClient(c))
	})
}

// topics completes names of topics.
func (b *brokerFlags) topics() completion {
	return b.names(func(ctx context.Context, c *kadm.Client) []string {
		all, _ := c.ListTopics(ctx) // none where they cannot be asked for
		return all.Names()
	})
}

// groups completes names of consumer groups.
func (b *brokerFlags) groups() completion {
	return b.names(func(ctx context.Context, c *kadm.Client) []string {
		all, _ := c.ListGroups(ctx) // none where they cannot be asked for
		return all.Groups()
	})
}

// first completes the first argument, and no other.
func first(names completion) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd, args, begun)
	}
}

// completeArgs completes names as arguments of verbs below cmd.
func completeArgs(cmd *cobra.Command, names completion, verbs ...string) {
	for _, v := range cmd.Commands() {
		switch {
		case !slices.Contains(verbs, v.Name()):
		case strings.Contains(v.Use, "..."):
			v.ValidArgsFunction = names
		default:
			v.ValidArgsFunction = first(names)
		}
	}
}

func (a *apiFlags) completeArgs(cmd *cobra.Command, kind string, verbs ...string) {
	completeArgs(cmd, a.names(kind), verbs...)
}

// completeFlag completes names as the value of a flag.
func (a *apiFlags) completeFlag(cmd *cobra.Command, flag, kind string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, a.names(kind))
}
