package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
	"polylog/core"
)

func newUser(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := &cobra.Command{
		Use: "user", Short: "List, add, change and delete users and their rights", Args: cobra.NoArgs, RunE: verbMissing,
		Long: "While there is no user the broker asks nobody who they are;\n" +
			"the first one has to be an administrator, and is added on the broker's own machine:\n\n" +
			"  polylog user add admin --tag administrator\n\n" +
			"From then on everybody has to log in. Passwords are asked for, or come from standard\n" +
			"input or a file.",
	}
	a.addAddress(cmd)
	a.as.piped = true
	cmd.AddCommand(userList(a), userAdd(a), userPassword(a), userTag(a), userDelete(a), userGrant(a), userRevoke(a))
	a.completeArgs(cmd, "users", "password", "tag", "delete", "grant", "revoke")
	return cmd
}

// user is what the verbs show of one.
type user struct {
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
	Rights []rights `json:"rights"`
}

// rights are what a user may do in a namespace: regular expressions on names.
type rights struct {
	Namespace string `json:"namespace,omitempty"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

func userList(a *apiFlags) *cobra.Command {
	cmd := a.verb("list", "List users, their tags and rights", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		return list(ctx, a, c, rest.Request{Path: c.Path("users")}, "users", "USER\tTAGS\tNAMESPACE\tCONFIGURE\tWRITE\tREAD", func(w io.Writer, u *user) {
			tags := cmp.Or(strings.Join(u.Tags, ","), "-")
			if len(u.Rights) == 0 {
				row(w, u.Name, tags, "-", "-", "-", "-")
			}
			for _, g := range u.Rights { // a row for each namespace
				row(w, u.Name, tags, g.Namespace, quoted(g.Configure), quoted(g.Write), quoted(g.Read))
			}
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}

// quoted is an expression in a table; a dash where it matches nothing.
func quoted(expression string) string {
	if expression == "" {
		return "-"
	}
	return fmt.Sprintf("%q", expression)
}

// putUser says what a user is to be; isNew, whether it must be new or must be there.
func putUser(ctx context.Context, c *rest.Client, name string, isNew bool, body map[string]any) error {
	b, err := rest.JSON(body)
	if err != nil {
		return err
	}
	return c.Do(ctx, rest.Request{Method: http.MethodPut, Path: c.Path("users", name), Query: url.Values{"new": {fmt.Sprint(isNew)}}, Body: b}, nil)
}

func userAdd(a *apiFlags) *cobra.Command {
	var tags []string
	var file string
	var without, noRights bool
	cmd := a.verb("add NAME", "Add a user; an administrator may do everything in the default namespace, others nothing yet", cobra.ExactArgs(1),
		func(ctx context.Context, c *rest.Client, args []string) error {
			name, body := args[0], map[string]any{"tags": append([]string{}, tags...)}
			if !without {
				password, err := a.process.password(file, "Password for "+name, true)
				if err != nil {
					return passwordOf(name, "--password-file", err)
				}
				body["password"] = password
			}
			if slices.Contains(tags, "administrator") && !noRights {
				body["rights"] = []rights{{core.DefaultNamespace, ".*", ".*", ".*"}}
			}
			if err := putUser(ctx, c, name, true, body); err != nil {
				return fmt.Errorf("add user %s: %w", name, err)
			}
			if err := a.say("user %s added", name); err != nil {
				return err
			}
			if asked, _ := a.as.named(); asked == "" { // which only the first one is for
				return a.say("It is the first: everybody has to log in from now on, and clients that did not are cut off.")
			}
			return nil
		})
	cmd.Aliases = []string{"create"} // as of everything else
	f := cmd.Flags()
	f.StringSliceVar(&tags, "tag", nil, "administrator, monitoring, policymaker, management, or any other text")
	f.StringVar(&file, "password-file", "", "file with the new user's password in its first line; - is standard input")
	f.BoolVar(&without, "no-password", false, "it logs in by a certificate only")
	f.BoolVar(&noRights, "no-rights", false, "give an administrator no rights to what is in the default namespace")
	return cmd
}

// passwordOf says whose password cannot be had, and by which flag it comes.
func passwordOf(name, flag string, err error) error {
	return fmt.Errorf("the password of %s, of standard input or %s: %w", name, flag, err)
}

func userPassword(a *apiFlags) *cobra.Command {
	var file string
	cmd := a.verb("password NAME", "Change a password; connections under the old one end", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		password, err := a.process.password(file, "New password for "+args[0], true)
		if err != nil {
			return passwordOf(args[0], "--password-file", err)
		}
		if err := putUser(ctx, c, args[0], false, map[string]any{"password": password}); err != nil {
			return fmt.Errorf("change the password of %s: %w", args[0], err)
		}
		return a.say("password of %s changed", args[0])
	})
	cmd.Flags().StringVar(&file, "password-file", "", "file with the new password in its first line; - is standard input")
	return cmd
}

func userTag(a *apiFlags) *cobra.Command {
	return a.verb("tag NAME [TAG...]", "Set a user's tags in place of those it has", cobra.MinimumNArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		if err := putUser(ctx, c, args[0], false, map[string]any{"tags": args[1:]}); err != nil {
			return err
		}
		return a.say("tags of %s set", args[0])
	})
}

func userDelete(a *apiFlags) *cobra.Command {
	var last bool
	cmd := a.verb("delete NAME", "Delete a user; its connections end, and so does what webhooks and hooks do in its name", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		if err := c.Delete(ctx, c.Path("users", args[0]), url.Values{"last": {fmt.Sprint(last)}}, nil); err != nil {
			return err
		}
		if err := a.say("user %s deleted", args[0]); err != nil || !last {
			return err
		}
		return a.say("It was the last: the broker asks nobody who they are from now on.")
	})
	cmd.Flags().BoolVar(&last, "last", false, "the last user of all: the broker asks nobody who they are then")
	return cmd
}

func userGrant(a *apiFlags) *cobra.Command {
	var to rights
	var namespace string
	var all bool
	cmd := a.verb("grant NAME", "Say what a user may do in a namespace, in place of what it could", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		if err := c.Send(ctx, http.MethodPut, c.Path("users", args[0], "rights", namespace), to, nil); err != nil {
			return err
		}
		return a.say("rights of %s in %s set", args[0], namespace)
	})
	cmd.Long = "The rights are regular expressions on the names of queues, exchanges, topics and groups: what a user\n" +
		"may make, change and delete, what it may write to, and what it may read. What is left out matches nothing."
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		given := cmd.Flags().Changed("configure") || cmd.Flags().Changed("write") || cmd.Flags().Changed("read")
		switch {
		case all && given:
			return usageError{errors.New("--all beside other rights")}
		case all:
			to = rights{Configure: ".*", Write: ".*", Read: ".*"}
		case !given:
			return usageError{errors.New("which rights? --configure, --write and --read say them, or --all; revoke takes them")}
		}
		return nil
	}
	f := cmd.Flags()
	f.StringVarP(&namespace, "namespace", "N", core.DefaultNamespace, "namespace, which is AMQP's virtual host")
	f.StringVar(&to.Configure, "configure", "", "expression on what it may make, change and delete")
	f.StringVar(&to.Write, "write", "", "expression on what it may write to")
	f.StringVar(&to.Read, "read", "", "expression on what it may read")
	f.BoolVar(&all, "all", false, "everything")
	return cmd
}

func userRevoke(a *apiFlags) *cobra.Command {
	var namespace string
	cmd := a.verb("revoke NAME", "Take a user's rights in a namespace", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		if err := c.Delete(ctx, c.Path("users", args[0], "rights", namespace), nil, nil); err != nil {
			return err
		}
		return a.say("rights of %s in %s taken", args[0], namespace)
	})
	cmd.Flags().StringVarP(&namespace, "namespace", "N", core.DefaultNamespace, "namespace, which is AMQP's virtual host")
	return cmd
}
