package main

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Names are completed from the broker, where it can be reached; a shell must not wait for one that cannot.

const (
	completeTime = 2 * time.Second
	maxComplete  = 200
)

// completion is what cobra calls for the words that may follow.
type completion = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// names completes names of objects of a kind, as the interface calls its list.
func (a *apiFlags) names(kind string) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		q := url.Values{}
		if begun != "" && kind != "hooks" && kind != "exchanges" {
			q.Set("search", begun)
		}
		var all []string
		_ = c.Each(ctx, c.Path(kind), q, kind, maxComplete, func(one json.RawMessage) error {
			var o struct{ Name string }
			if json.Unmarshal(one, &o) == nil && strings.HasPrefix(o.Name, begun) && !slices.Contains(args, o.Name) {
				all = append(all, o.Name)
			}
			return nil
		})
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeArgs completes names as arguments of verbs below cmd.
func (a *apiFlags) completeArgs(cmd *cobra.Command, kind string, verbs ...string) {
	names := a.names(kind)
	for _, v := range cmd.Commands() {
		if !slices.Contains(verbs, v.Name()) {
			continue
		}
		one := !strings.Contains(v.Use, "...")
		v.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if one && len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(cmd, args, begun)
		}
	}
}

// completeFlag completes names as the value of a flag.
func (a *apiFlags) completeFlag(cmd *cobra.Command, flag, kind string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, a.names(kind))
}
