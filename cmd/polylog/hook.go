package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// hookSpec is what a hook's owner says of it.
type hookSpec struct {
	Topic           string   `json:"topic"`
	Preset          string   `json:"preset"`
	SignatureHeader string   `json:"signatureHeader,omitempty"`
	SignaturePrefix string   `json:"signaturePrefix,omitempty"`
	Algorithm       string   `json:"algorithm,omitempty"`
	Encoding        string   `json:"encoding,omitempty"`
	Signed          string   `json:"signed,omitempty"`
	TimestampHeader string   `json:"timestampHeader,omitempty"`
	Username        string   `json:"username,omitempty"`
	ID              string   `json:"id,omitempty"`
	Key             string   `json:"key,omitempty"`
	Type            string   `json:"type,omitempty"`
	Headers         []string `json:"headers,omitempty"`
	ToleranceMs     int64    `json:"toleranceMs,omitempty"`
	WindowMs        int64    `json:"windowMs,omitempty"`
	MaxBytes        int      `json:"maxBytes,omitempty"`
}

// hook is what verbs show of one. Its secrets are hints.
type hook struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Path    string    `json:"path"`
	Owner   string    `json:"owner"`
	Refused string    `json:"refused"`
	hookSpec
	Secrets []secretHint `json:"secrets"`
	Secret  string       `json:"secret"`
}

// state is whether it stores what comes.
func (h *hook) state() string {
	if h.Refused != "" {
		return "refused"
	}
	return "active"
}

func newHook(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := a.group("hook", "List, create, describe and delete addresses that take webhooks, rotate their secrets",
		hookList(a), hookDescribe(a), hookCreate(a), hookRotate(a), hookDelete(a))
	a.completeArgs(cmd, "hooks", "describe", "rotate", "delete")
	return cmd
}

func hookList(a *apiFlags) *cobra.Command {
	cmd := a.verb("list", "List hooks and where they lead", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		return list(ctx, a, c, rest.Request{Path: c.Path("hooks")}, "hooks", "HOOK\tPRESET\tTOPIC\tOWNER\tSTATE\tPATH", func(w io.Writer, h *hook) {
			row(w, h.Name, h.Preset, h.Topic, cmp.Or(h.Owner, "-"), h.state(), h.Path)
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}

func hookDescribe(a *apiFlags) *cobra.Command {
	cmd := a.each("describe NAME...", "Show settings", "describe hook", func(ctx context.Context, c *rest.Client, name string) error {
		var raw json.RawMessage
		if err := c.Get(ctx, c.Path("hooks", name), nil, &raw); err != nil {
			return err
		}
		return object(a, raw, func(w io.Writer, h *hook) {
			row(w, "hook", h.Name)
			row(w, "created", h.Created.Format(time.RFC3339))
			row(w, "owner", cmp.Or(h.Owner, "-"))
			row(w, "state", h.state())
			if h.Refused != "" {
				row(w, "refused", h.Refused)
			}
			row(w, "path", h.Path)
			row(w, "topic", h.Topic)
			row(w, "preset", h.Preset)
			row(w, "secrets", hints(h.Secrets))
			for _, s := range []struct{ name, value string }{
				{"id", h.ID},
				{"key", h.Key},
				{"type", h.Type},
				{"headers", strings.Join(h.Headers, ", ")},
				{"username", h.Username},
				{"signature header", h.SignatureHeader},
				{"signature prefix", h.SignaturePrefix},
				{"algorithm", h.Algorithm},
				{"encoding", h.Encoding},
				{"signed", h.Signed},
				{"timestamp header", h.TimestampHeader},
			} {
				row(w, s.name, cmp.Or(s.value, "-"))
			}
			row(w, "window", ms(h.WindowMs))
			row(w, "tolerance", ms(h.ToleranceMs))
			row(w, "max body", bytesText(int64(h.MaxBytes)))
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}

func hookCreate(a *apiFlags) *cobra.Command {
	var spec hookSpec
	var secrets []string
	var window, tolerance time.Duration
	cmd := a.verb("create NAME", "Create a hook, or change the one that is there", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		if spec.Topic == "" || spec.Preset == "" {
			return usageError{errors.New("--topic and --preset have to be given")}
		}
		texts, err := readSecrets(secrets)
		if err != nil {
			return err
		}
		spec.WindowMs, spec.ToleranceMs = window.Milliseconds(), tolerance.Milliseconds()
		body := struct {
			hookSpec
			Secrets []string `json:"secrets,omitempty"`
		}{spec, texts}
		var made hook
		if err := c.Send(ctx, http.MethodPut, c.Path("hooks", args[0]), &body, &made); err != nil {
			return fmt.Errorf("create hook %s: %w", args[0], err)
		}
		if err := a.say("senders post to %s", made.Path); err != nil || made.Secret == "" {
			return err
		}
		return a.say("secret, shown this once: %s", made.Secret)
	})
	f := cmd.Flags()
	f.StringVarP(&spec.Topic, "topic", "t", "", "topic that gets the messages")
	f.StringVarP(&spec.Preset, "preset", "p", "", "whom it believes: standard, github, stripe, hmac, bearer or basic")
	f.StringArrayVar(&secrets, "secret-file", nil, "file with a secret; may be repeated; one is made where there is none")
	f.StringVar(&spec.ID, "id", "", "where a request's id is: header:NAME or json:/a/b")
	f.StringVar(&spec.Key, "key", "", "where the message's key is")
	f.StringVar(&spec.Type, "type", "", "where the message's type is")
	f.StringSliceVar(&spec.Headers, "header", nil, "headers of the request that become the message's, with commas")
	f.StringVar(&spec.Username, "username", "", "of preset basic")
	f.StringVar(&spec.SignatureHeader, "signature-header", "", "of preset hmac: where the signature is; default X-Signature")
	f.StringVar(&spec.SignaturePrefix, "signature-prefix", "", "of preset hmac: what is before it")
	f.StringVar(&spec.Algorithm, "algorithm", "", "of preset hmac: sha256, sha1 or sha512")
	f.StringVar(&spec.Encoding, "encoding", "", "of preset hmac: hex or base64")
	f.StringVar(&spec.Signed, "signed", "", "of preset hmac: what is signed, with {body}, {timestamp} and {id} in it")
	f.StringVar(&spec.TimestampHeader, "timestamp-header", "", "of preset hmac: where the timestamp is")
	f.DurationVar(&window, "window", 0, "how long an id is known; default 96h")
	f.DurationVar(&tolerance, "tolerance", 0, "how far a signed timestamp may be from now; default 5m")
	f.IntVar(&spec.MaxBytes, "max-bytes", 0, "of a body; default 1048576")
	a.completeFlag(cmd, "topic", "topics")
	_ = cmd.RegisterFlagCompletionFunc("preset", cobra.FixedCompletions([]string{"standard", "github", "stripe", "hmac", "bearer", "basic"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func hookRotate(a *apiFlags) *cobra.Command {
	return a.rotate("rotate NAME", "Give a hook a new secret; for a while the old ones are believed, too", "hooks", func(raw json.RawMessage) (string, error) {
		var h hook
		err := json.Unmarshal(raw, &h)
		return h.Secret, err
	})
}

func hookDelete(a *apiFlags) *cobra.Command {
	return a.each("delete NAME...", "Delete hooks; their topics stay", "delete hook", func(ctx context.Context, c *rest.Client, name string) error {
		return c.Delete(ctx, c.Path("hooks", name), nil, nil)
	})
}
