package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/config"
	"polylog/cmd/polylog/rest"
)

const defaultServer = "127.0.0.1:8080"

// apiFlags are the flags of the verbs that speak to the HTTP interface of a running broker.
type apiFlags struct {
	process   *process
	as        *credentials // nil: nobody
	servers   rest.Servers
	namespace string
	timeout   time.Duration
	output    string
}

// add adds them to a verb, or to all that are below one.
func (a *apiFlags) add(cmd *cobra.Command) {
	a.addAddress(cmd)
	cmd.PersistentFlags().StringVarP(&a.namespace, "namespace", "N", "", "namespace, which is AMQP's virtual host (default: the default one)")
}

func (a *apiFlags) addAddress(cmd *cobra.Command) {
	a.as = &credentials{process: a.process}
	a.as.add(cmd)
	f := cmd.PersistentFlags()
	f.VarP(&a.servers, "server", "s", "address of the broker's HTTP interface, or several with commas (environment: "+config.ServerEnv+"; default "+defaultServer+")")
	f.DurationVar(&a.timeout, "timeout", 30*time.Second, "how long to wait for an answer")
}

// group is a verb that only has others below it, with these flags for all of them.
func (a *apiFlags) group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: verbMissing}
	a.add(cmd)
	cmd.AddCommand(verbs...)
	return cmd
}

// client is of the broker that the flags, or else the environment, name.
func (a *apiFlags) client() (*rest.Client, error) {
	servers := a.servers
	if len(servers) == 0 {
		if err := servers.Set(cmp.Or(a.process.env(config.ServerEnv), defaultServer)); err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", config.ServerEnv, err)}
		}
	}
	c := rest.New(servers)
	c.Namespace, c.Timeout = a.namespace, a.timeout
	if a.as != nil {
		user, password, err := a.as.get()
		if err != nil {
			return nil, err
		}
		if user != "" {
			c.LogIn(user, password)
		}
	}
	return c, nil
}

// call runs do with a client.
func (a *apiFlags) call(ctx context.Context, do func(context.Context, *rest.Client) error) error {
	if err := checkOutput(a.output); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	err = do(ctx, c)
	if p, ok := errors.AsType[*rest.Problem](err); ok && p.Status == http.StatusUnauthorized && a.as != nil {
		if user, _ := a.as.named(); user == "" {
			return fmt.Errorf("%w (see --user)", err)
		}
	}
	return err
}

// verb is a verb that calls the broker.
func (a *apiFlags) verb(use, short string, args cobra.PositionalArgs, do func(ctx context.Context, c *rest.Client, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "") {
				return usageError{errors.New("a name is empty; usage: " + cmd.UseLine())}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *rest.Client) error { return do(ctx, c, args) })
		},
	}
}

// each is a verb that does the same with each object that is named. Those behind one that
// failed are done too.
func (a *apiFlags) each(use, short, what string, do func(ctx context.Context, c *rest.Client, name string) error) *cobra.Command {
	return a.verb(use, short, cobra.MinimumNArgs(1), func(ctx context.Context, c *rest.Client, names []string) error {
		var all error
		for _, n := range names {
			if err := do(ctx, c, n); err != nil {
				if ctx.Err() != nil {
					return err
				}
				all = errors.Join(all, fmt.Errorf("%s %s: %w", what, n, err))
			}
		}
		return all
	})
}

// say prints what was done, where a person reads it.
func (a *apiFlags) say(format string, args ...any) error {
	_, err := fmt.Fprintf(a.process.out, format+"\n", args...)
	return err
}

// show writes v as -o wants it.
func (a *apiFlags) show(v any, table func(io.Writer)) error {
	return show(a.process.out, a.output, v, table)
}

// list shows all objects of a list: as JSON what the interface says of them, as a table a row each.
func list[T any](ctx context.Context, a *apiFlags, c *rest.Client, request rest.Request, key, head string, cells func(w io.Writer, one *T)) error {
	raw := []json.RawMessage{}
	var rows []T
	err := c.Each(ctx, request.Path, request.Query, key, 0, func(one json.RawMessage) error {
		if a.output == "json" {
			raw = append(raw, one)
			return nil
		}
		var t T
		if err := json.Unmarshal(one, &t); err != nil {
			return err
		}
		rows = append(rows, t)
		return nil
	})
	if err != nil {
		return err
	}
	return a.show(raw, func(w io.Writer) {
		row(w, head)
		for i := range rows {
			cells(w, &rows[i])
		}
	})
}

// object shows one object: as JSON what the interface says of it, as a table what cells writes.
func object[T any](a *apiFlags, raw json.RawMessage, cells func(w io.Writer, one *T)) error {
	var t T
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	return a.show(raw, func(w io.Writer) { cells(w, &t) })
}

// since is how long ago something was, for people.
func since(at, now time.Time) string {
	d := now.Sub(at)
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
