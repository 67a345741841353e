package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"polylog/core"
)

// userFlags are the flags of the verbs about users.
type userFlags struct {
	process   *process
	as        credentials
	server    string
	namespace string
	timeout   time.Duration
}

func newUser(p *process) *cobra.Command {
	u := &userFlags{process: p, as: credentials{process: p, piped: true}}
	cmd := &cobra.Command{
		Use: "user", Short: "List, add, change and delete users and their rights", Args: cobra.NoArgs, RunE: verbMissing,
		Long: "While there is no user the broker asks nobody who they are;\n" +
			"the first one has to be an administrator, and is added on the broker's own machine:\n\n" +
			"  polylog user add admin --tag administrator\n\n" +
			"Passwords are asked for, or come from standard input or a file.",
	}
	f := cmd.PersistentFlags()
	f.StringVarP(&u.server, "server", "s", "127.0.0.1:8080", "address of the broker's HTTP interface")
	f.DurationVar(&u.timeout, "timeout", 30*time.Second, "how long to wait for the broker")
	u.as.add(cmd)
	cmd.AddCommand(userList(u), userAdd(u), userPassword(u), userTag(u), userDelete(u), userGrant(u), userRevoke(u))
	return cmd
}

// userInfo is a user, as the interface has it.
type userInfo struct {
	Name        string   `json:"name"`
	Tags        []string `json:"tags"`
	HasPassword bool     `json:"hasPassword"`
	Rights      []struct {
		Namespace string `json:"namespace"`
		Configure string `json:"configure"`
		Write     string `json:"write"`
		Read      string `json:"read"`
	} `json:"rights"`
}

func userList(u *userFlags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "list", Short: "List users, their tags and rights", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("output %q is neither table nor json", output)}
			}
			as, err := u.login()
			if err != nil {
				return err
			}
			all := []json.RawMessage{}
			for after := ""; ; {
				var page struct {
					Users []json.RawMessage `json:"users"`
					Next  string            `json:"next"`
				}
				if err := as.call(cmd.Context(), http.MethodGet, "/v1/users?limit=1000&cursor="+url.QueryEscape(after), nil, &page); err != nil {
					return err
				}
				all = append(all, page.Users...)
				if after = page.Next; after == "" {
					break
				}
			}
			if output == "json" {
				e := json.NewEncoder(u.process.out)
				e.SetIndent("", "  ")
				return e.Encode(all)
			}
			return u.table(all)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// table shows users, a row for each namespace that they have rights in.
func (u *userFlags) table(all []json.RawMessage) error {
	w := tabwriter.NewWriter(u.process.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "USER\tTAGS\tNAMESPACE\tCONFIGURE\tWRITE\tREAD") // a tabwriter repeats its error at Flush
	or := func(text, none string) string {
		if text == "" {
			return none
		}
		return fmt.Sprintf("%q", text)
	}
	for _, raw := range all {
		var one userInfo
		if err := json.Unmarshal(raw, &one); err != nil {
			return err
		}
		tags := strings.Join(one.Tags, ",")
		if tags == "" {
			tags = "-"
		}
		if len(one.Rights) == 0 {
			_, _ = fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\n", one.Name, tags)
		}
		for _, g := range one.Rights {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", one.Name, tags, g.Namespace, or(g.Configure, "-"), or(g.Write, "-"), or(g.Read, "-"))
		}
	}
	return w.Flush()
}

func userAdd(u *userFlags) *cobra.Command {
	var tags []string
	var file string
	var without, noRights bool
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add a user; an administrator may do everything in the default namespace, others nothing yet", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			as, err := u.login()
			if err != nil {
				return err
			}
			name, password := args[0], ""
			if !without {
				if password, err = u.process.password(file, "Password for "+name, true); err != nil {
					return err
				}
			}
			body := map[string]any{"password": password, "tags": append([]string{}, tags...)}
			if err := as.call(cmd.Context(), http.MethodPut, userPath(name)+"?new=true", body, nil); err != nil {
				return fmt.Errorf("add user %s: %w", name, err)
			}
			if slices.Contains(tags, "administrator") && !noRights {
				if as.user == "" { // it was the first one
					as.user, as.password = name, password
				}
				all := map[string]string{"configure": ".*", "write": ".*", "read": ".*"}
				if err := as.call(cmd.Context(), http.MethodPut, rightsPath(name, core.DefaultNamespace), all, nil); err != nil {
					return fmt.Errorf("user %s is added, but has no rights: %w", name, err)
				}
			}
			return u.say("user %s added\n", name)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&tags, "tag", nil, "administrator, monitoring, policymaker, management, or any other text")
	f.StringVar(&file, "password-file", "", "file with the new user's password in its first line; - is standard input")
	f.BoolVar(&without, "no-password", false, "it logs in by a certificate only")
	f.BoolVar(&noRights, "no-rights", false, "give an administrator no rights to what is in the default namespace")
	return cmd
}

func userPassword(u *userFlags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "password NAME", Short: "Change a password; connections under the old one end", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			as, err := u.login()
			if err != nil {
				return err
			}
			password, err := u.process.password(file, "New password for "+args[0], true)
			if err != nil {
				return err
			}
			if err := as.call(cmd.Context(), http.MethodPut, userPath(args[0])+"?new=false", map[string]any{"password": password}, nil); err != nil {
				return fmt.Errorf("change the password of %s: %w", args[0], err)
			}
			return u.say("password of %s changed\n", args[0])
		},
	}
	cmd.Flags().StringVar(&file, "password-file", "", "file with the new password in its first line; - is standard input")
	return cmd
}

func userTag(u *userFlags) *cobra.Command {
	return &cobra.Command{
		Use: "tag NAME [TAG...]", Short: "Set a user's tags in place of those it has", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return u.once(cmd.Context(), http.MethodPut, userPath(args[0])+"?new=false", map[string]any{"tags": args[1:]}, "tags of %s set\n", args[0])
		},
	}
}

func userDelete(u *userFlags) *cobra.Command {
	var last bool
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a user; its connections end", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return u.once(cmd.Context(), http.MethodDelete, fmt.Sprintf("%s?last=%t", userPath(args[0]), last), nil, "user %s deleted\n", args[0])
		},
	}
	cmd.Flags().BoolVar(&last, "last", false, "also the last user of all: the broker asks nobody who they are then")
	return cmd
}

func userGrant(u *userFlags) *cobra.Command {
	var configure, write, read string
	var all bool
	cmd := &cobra.Command{
		Use: "grant NAME", Short: "Say what a user may do in a namespace, in place of what it could", Args: cobra.ExactArgs(1),
		Long: "The rights are regular expressions on the names of queues, exchanges, topics and groups: what a user\n" +
			"may make, change and delete, what it may write to, and what it may read. What is left out matches nothing.",
		RunE: func(cmd *cobra.Command, args []string) error {
			rights := map[string]string{"configure": configure, "write": write, "read": read}
			if all {
				if configure+write+read != "" {
					return usageError{errors.New("--all beside other rights")}
				}
				rights = map[string]string{"configure": ".*", "write": ".*", "read": ".*"}
			}
			return u.once(cmd.Context(), http.MethodPut, rightsPath(args[0], u.namespace), rights, "rights of %s in %s set\n", args[0], u.namespace)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&u.namespace, "namespace", "N", core.DefaultNamespace, "namespace, which is AMQP's virtual host")
	f.StringVar(&configure, "configure", "", "expression on what it may make, change and delete")
	f.StringVar(&write, "write", "", "expression on what it may write to")
	f.StringVar(&read, "read", "", "expression on what it may read")
	f.BoolVar(&all, "all", false, "everything")
	return cmd
}

func userRevoke(u *userFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "Take a user's rights in a namespace", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return u.once(cmd.Context(), http.MethodDelete, rightsPath(args[0], u.namespace), nil, "rights of %s in %s taken\n", args[0], u.namespace)
		},
	}
	cmd.Flags().StringVarP(&u.namespace, "namespace", "N", core.DefaultNamespace, "namespace, which is AMQP's virtual host")
	return cmd
}

func userPath(name string) string { return "/v1/users/" + url.PathEscape(name) }

func rightsPath(user, namespace string) string {
	return userPath(user) + "/rights/" + url.PathEscape(namespace)
}

func (u *userFlags) say(format string, args ...any) error {
	_, err := fmt.Fprintf(u.process.out, format, args...)
	return err
}

// once asks for one thing, and says that it is done.
func (u *userFlags) once(ctx context.Context, method, path string, body any, done string, args ...any) error {
	as, err := u.login()
	if err != nil {
		return err
	}
	if err := as.call(ctx, method, path, body, nil); err != nil {
		return err
	}
	return u.say(done, args...)
}

// session is what calls need.
type session struct {
	base           string
	user, password string
	client         http.Client
}

func (u *userFlags) login() (*session, error) {
	user, password, err := u.as.get()
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(u.server, "/")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	return &session{base, user, password, http.Client{Timeout: u.timeout}}, nil
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 20

// call makes a request. What is refused is an error in the broker's words.
func (s *session) call(ctx context.Context, method, path string, body, to any) error {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, &text)
	if err != nil {
		return usageError{err}
	}
	req.Header.Set("Content-Type", "application/json")
	if s.user != "" {
		req.SetBasicAuth(s.user, s.password)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("no broker answers at %s: %w", s.base, plain(errors.Unwrap(err)))
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		var p struct {
			Detail string `json:"detail"`
		}
		if json.Unmarshal(answer, &p) != nil || p.Detail == "" {
			p.Detail = resp.Status
		}
		if resp.StatusCode == http.StatusUnauthorized && s.user == "" {
			p.Detail += " (see --user)"
		}
		return errors.New(p.Detail)
	case to != nil:
		return json.Unmarshal(answer, to)
	}
	return nil
}
