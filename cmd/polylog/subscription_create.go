package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// subscriptionSpec is what `subscription create` sends.
type subscriptionSpec struct {
	Topic           string    `json:"topic,omitempty"`
	Queue           string    `json:"queue,omitempty"`
	From            string    `json:"from,omitempty"`
	MaxDeliveries   int       `json:"maxDeliveries,omitempty"`
	DeadLetterQueue string    `json:"deadLetterQueue,omitempty"`
	AckDeadlineMs   int64     `json:"ackDeadlineMs,omitempty"`
	Retry           *retry    `json:"retry,omitempty"`
	Filter          *filter   `json:"filter,omitempty"`
	Push            *pushSpec `json:"push,omitempty"`
}

// filter chooses messages, for subscriptions and when dead letters are moved.
type filter struct {
	Tags    []string          `json:"tags,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	CEL     string            `json:"cel,omitempty"`
}

// String is a filter in one line.
func (f *filter) String() string {
	var all []string
	if len(f.Tags) > 0 {
		all = append(all, "tag "+strings.Join(f.Tags, " or "))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Headers)) {
		all = append(all, "header "+name+"="+f.Headers[name])
	}
	if f.CEL != "" {
		all = append(all, f.CEL)
	}
	return strings.Join(all, ", and ")
}

// add adds its flags.
func (f *filter) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.Tags, "tag", nil, "only messages with this tag, or one of several with commas")
	cmd.Flags().StringToStringVar(&f.Headers, "filter-header", nil, "only messages with this header, name=value; several with commas")
	cmd.Flags().StringVar(&f.CEL, "cel", "", `only messages for which the expression is true, such as 'json.total > 100.0'`)
}

// orNil is nil where nothing is chosen by it.
func (f *filter) orNil() *filter {
	if len(f.Tags) == 0 && len(f.Headers) == 0 && f.CEL == "" {
		return nil
	}
	return f
}

// pushSpec is an endpoint.
type pushSpec struct {
	URL               string            `json:"url"`
	Format            string            `json:"format,omitempty"`
	Ordered           bool              `json:"ordered,omitempty"`
	MaxInFlight       int               `json:"maxInFlight,omitempty"`
	RatePerSecond     int               `json:"ratePerSecond,omitempty"`
	TimeoutMs         int64             `json:"timeoutMs,omitempty"`
	PermanentStatuses []int             `json:"permanentStatuses,omitempty"`
	Handshake         bool              `json:"handshake,omitempty"`
	Headers           map[string]string `json:"headers,omitempty"`
	Secrets           []string          `json:"secrets,omitempty"`
}

// pushFlags are those that mean something with --push alone.
var pushFlags = []string{"format", "ordered", "in-flight", "rate", "request-timeout", "permanent-status", "handshake", "header", "secret-file"}

func subscriptionCreate(a *apiFlags) *cobra.Command {
	var spec subscriptionSpec
	var push pushSpec
	var chosen filter
	var deadline, requestTimeout, retryMin, retryMax time.Duration
	var headers, secrets []string
	cmd := a.verb("create NAME", "Create a subscription, or change the one that is there", cobra.ExactArgs(1), nil)
	cmd.Long = "create makes a subscription of a topic, or of a queue: a position in the log for clients that pull, or, with\n" +
		"--push, for an endpoint that gets every message. One that is there is changed to what the flags say."
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if push.URL == "" {
			for _, name := range pushFlags {
				if cmd.Flags().Changed(name) {
					return usageError{fmt.Errorf("--%s is for endpoints: give --push, too", name)}
				}
			}
		}
		spec.AckDeadlineMs, push.TimeoutMs, spec.Filter = deadline.Milliseconds(), requestTimeout.Milliseconds(), chosen.orNil()
		if retryMin > 0 || retryMax > 0 {
			spec.Retry = &retry{retryMin.Milliseconds(), max(retryMin, retryMax).Milliseconds()}
		}
		if push.Headers, err = pairs("--header", headers); err != nil {
			return err
		}
		if push.Secrets, err = readSecrets(secrets); err != nil {
			return err
		}
		if push.URL != "" {
			spec.Push = &push
		}
		return a.call(cmd.Context(), func(ctx context.Context, c *rest.Client) error { return a.createSubscription(ctx, c, args[0], &spec) })
	}
	f := cmd.Flags()
	f.StringVarP(&spec.Topic, "topic", "t", "", "topic that it is of")
	f.StringVarP(&spec.Queue, "queue", "q", "", "queue that it is of, instead")
	f.StringVar(&spec.From, "from", "", "where a new one begins: start or end; default end")
	f.IntVar(&spec.MaxDeliveries, "max-deliveries", 0, "after so many a message is dead; 0: any number, and ten with --push")
	f.StringVar(&spec.DeadLetterQueue, "dead-letter-queue", "", "queue that gets the dead; default with --push NAME.dead")
	f.DurationVar(&deadline, "ack-deadline", 0, "how long a delivery is its client's; default 30s")
	f.DurationVar(&retryMin, "retry-min", 0, "how long a message rests after its first failure; twice as long after each more")
	f.DurationVar(&retryMax, "retry-max", 0, "how long it rests at most")
	chosen.add(cmd)
	f.StringVar(&push.URL, "push", "", "URL of the endpoint that gets the messages")
	f.StringVar(&push.Format, "format", "", "raw, cloudevents-binary or cloudevents-structured; default raw")
	f.BoolVar(&push.Ordered, "ordered", false, "messages of a key one at a time, in order")
	f.IntVar(&push.MaxInFlight, "in-flight", 0, "requests at a time; default 16")
	f.IntVar(&push.RatePerSecond, "rate", 0, "requests a second; 0: any number")
	f.DurationVar(&requestTimeout, "request-timeout", 0, "how long a request may take; default 15s")
	f.IntSliceVar(&push.PermanentStatuses, "permanent-status", nil, "statuses that make a message dead at once, with commas")
	f.BoolVar(&push.Handshake, "handshake", false, "ask the endpoint for its consent first (CloudEvents)")
	f.StringArrayVarP(&headers, "header", "H", nil, "header of each request, name=value; may be repeated")
	f.StringArrayVar(&secrets, "secret-file", nil, "file with a secret, whsec_… or whsk_…; may be repeated; one is made where there is none")
	a.completeFlag(cmd, "topic", "topics")
	a.completeFlag(cmd, "queue", "queues")
	a.completeFlag(cmd, "dead-letter-queue", "queues")
	return cmd
}

func (a *apiFlags) createSubscription(ctx context.Context, c *rest.Client, name string, spec *subscriptionSpec) error {
	if (spec.Topic == "") == (spec.Queue == "") {
		return usageError{errors.New("a subscription is of a topic or of a queue: give --topic or --queue")}
	}
	var raw json.RawMessage
	if err := c.Send(ctx, http.MethodPut, c.Path("subscriptions", name), spec, &raw); err != nil {
		return fmt.Errorf("create subscription %s: %w", name, err)
	}
	var made subscription
	if err := json.Unmarshal(raw, &made); err != nil {
		return err
	}
	if made.Push != nil && made.Push.Secret != "" {
		return a.say("secret, shown this once: %s", made.Push.Secret)
	}
	return nil
}

func subscriptionRotate(a *apiFlags) *cobra.Command {
	return a.rotate("rotate NAME", "Give an endpoint a new secret; for a while the old ones sign, too", "subscriptions", func(raw json.RawMessage) (string, error) {
		var p pushed
		err := json.Unmarshal(raw, &p)
		return p.Secret, err
	})
}

// rotate is the verb that gives an endpoint or a hook a new secret, and prints one that was made.
func (a *apiFlags) rotate(use, short, kind string, secretOf func(json.RawMessage) (string, error)) *cobra.Command {
	file, keep := "", 24*time.Hour
	cmd := a.verb(use, short, cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		body := map[string]any{"keepMs": keep.Milliseconds()}
		if file != "" {
			all, err := readSecrets([]string{file})
			if err != nil {
				return err
			}
			body["secret"] = all[0]
		}
		var raw json.RawMessage
		if err := c.Send(ctx, http.MethodPost, c.Path(kind, args[0])+":rotate", body, &raw); err != nil {
			return fmt.Errorf("rotate the secret of %s: %w", args[0], err)
		}
		secret, err := secretOf(raw)
		if err != nil || secret == "" {
			return err
		}
		return a.say("secret, shown this once: %s", secret)
	})
	cmd.Flags().StringVar(&file, "secret-file", "", "file with the secret; one is made where there is none")
	cmd.Flags().DurationVar(&keep, "keep", keep, "how long the old ones go on; 0 ends them at once")
	return cmd
}

// pairs are name=value texts.
func pairs(flag string, all []string) (map[string]string, error) {
	if len(all) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, text := range all {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("%s: %q is not name=value", flag, text)}
		}
		m[name] = value
	}
	return m, nil
}
