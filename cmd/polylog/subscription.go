package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// subscription is what verbs show of one.
type subscription struct {
	Name            string    `json:"name"`
	Created         time.Time `json:"created"`
	Owner           string    `json:"owner"`
	Orphaned        bool      `json:"orphaned"`
	Topic           string    `json:"topic"`
	Queue           string    `json:"queue"`
	MaxDeliveries   int       `json:"maxDeliveries"`
	DeadLetterQueue string    `json:"deadLetterQueue"`
	AckDeadlineMs   int64     `json:"ackDeadlineMs"`
	Filter          *filter   `json:"filter"`
	Retry           *retry    `json:"retry"`
	Push            *pushed   `json:"push"`
	Counts          *counts   `json:"counts"`
}

type retry struct {
	MinMs int64 `json:"minMs"`
	MaxMs int64 `json:"maxMs"`
}

// pushed is a subscription's endpoint.
type pushed struct {
	URL           string       `json:"url"`
	Format        string       `json:"format"`
	Ordered       bool         `json:"ordered"`
	MaxInFlight   int          `json:"maxInFlight"`
	RatePerSecond int          `json:"ratePerSecond"`
	TimeoutMs     int64        `json:"timeoutMs"`
	HeaderNames   []string     `json:"headerNames"`
	Secrets       []secretHint `json:"secrets"`
	Secret        string       `json:"secret"`
	State         string       `json:"state"`
	Refused       string       `json:"refused"`
	FailingSince  *time.Time   `json:"failingSince"`
	DisabledAt    *time.Time   `json:"disabledAt"`
	LastError     string       `json:"lastError"`
}

// secretHint tells secrets apart.
type secretHint struct {
	Hint  string     `json:"hint"`
	Until *time.Time `json:"until"`
}

// of is what a subscription is of.
func (s *subscription) of() string {
	switch {
	case s.Orphaned:
		return "deleted"
	case s.Queue != "":
		return "queue " + s.Queue
	}
	return s.Topic
}

// state is what clients do with it, or how its endpoint is.
func (s *subscription) state() string {
	if s.Push == nil {
		return "pull"
	}
	return "push, " + s.Push.State
}

func newSubscription(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := a.group("subscription", "List, create, describe, move, pause, test and delete subscriptions",
		subscriptionList(a), subscriptionDescribe(a), subscriptionCreate(a), subscriptionPull(a), subscriptionSeek(a),
		subscriptionPause(a), subscriptionResume(a), subscriptionTest(a), subscriptionRotate(a), subscriptionAttempts(a), subscriptionDelete(a))
	a.completeArgs(cmd, "subscriptions", "describe", "pull", "seek", "pause", "resume", "test", "rotate", "attempts", "delete")
	return cmd
}

func subscriptionList(a *apiFlags) *cobra.Command {
	search := ""
	cmd := a.verb("list", "List subscriptions and what waits for them", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		q := url.Values{"counts": {"true"}}
		if search != "" {
			q.Set("search", search)
		}
		return list(ctx, a, c, rest.Request{Path: c.Path("subscriptions"), Query: q}, "subscriptions", "SUBSCRIPTION\tOF\tSTATE\tREADY\tUNSETTLED\tDELAYED\tENDPOINT", func(w io.Writer, s *subscription) {
			ready, unsettled, delayed, _ := s.Counts.cells()
			endpoint := "-"
			if s.Push != nil {
				endpoint = s.Push.URL
			}
			row(w, s.Name, s.of(), s.state(), ready, unsettled, delayed, endpoint)
		})
	})
	addOutput(cmd, &a.output)
	cmd.Flags().StringVar(&search, "search", "", "only those with this in their name, their topic or their endpoint")
	return cmd
}

func subscriptionDescribe(a *apiFlags) *cobra.Command {
	cmd := a.each("describe NAME...", "Show settings, messages and the state of an endpoint", "describe subscription", func(ctx context.Context, c *rest.Client, name string) error {
		var raw json.RawMessage
		if err := c.Get(ctx, c.Path("subscriptions", name), nil, &raw); err != nil {
			return err
		}
		return object(a, raw, subscriptionTable)
	})
	addOutput(cmd, &a.output)
	return cmd
}

func subscriptionTable(w io.Writer, s *subscription) {
	ready, unsettled, delayed, _ := s.Counts.cells()
	row(w, "subscription", s.Name)
	row(w, "of", s.of())
	row(w, "created", s.Created.Format(time.RFC3339))
	row(w, "owner", cmp.Or(s.Owner, "-"))
	row(w, "ready", ready)
	row(w, "unsettled", unsettled)
	row(w, "delayed", delayed)
	row(w, "max deliveries", orNone(s.MaxDeliveries))
	row(w, "dead letters to", cmp.Or(s.DeadLetterQueue, "-"))
	row(w, "ack deadline", ms(s.AckDeadlineMs))
	if s.Retry != nil {
		row(w, "retry after", ms(s.Retry.MinMs)+" to "+ms(s.Retry.MaxMs))
	}
	if f := s.Filter; f != nil {
		row(w, "filter", f.String())
	}
	p := s.Push
	if p == nil {
		return
	}
	row(w, "endpoint", p.URL)
	row(w, "state", p.State)
	if p.Refused != "" {
		row(w, "refused", p.Refused)
	}
	if p.FailingSince != nil {
		row(w, "failing since", p.FailingSince.Format(time.RFC3339))
	}
	if p.DisabledAt != nil {
		row(w, "disabled at", p.DisabledAt.Format(time.RFC3339))
	}
	if p.LastError != "" {
		row(w, "last error", cell(p.LastError, 200))
	}
	row(w, "format", cmp.Or(p.Format, "raw"))
	row(w, "ordered", p.Ordered)
	row(w, "in flight", cmp.Or(p.MaxInFlight, 16))
	row(w, "rate", orNone(p.RatePerSecond))
	row(w, "time-out", ms(cmp.Or(p.TimeoutMs, 15_000)))
	row(w, "headers", cmp.Or(strings.Join(p.HeaderNames, ", "), "-"))
	row(w, "secrets", hints(p.Secrets))
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

// hints tell the secrets of an endpoint or a hook apart.
func hints(all []secretHint) string {
	var b []string
	for _, s := range all {
		text := s.Hint
		if s.Until != nil {
			text += " (until " + s.Until.Format(time.RFC3339) + ")"
		}
		b = append(b, text)
	}
	return cmp.Or(strings.Join(b, ", "), "-")
}

func subscriptionDelete(a *apiFlags) *cobra.Command {
	return a.each("delete NAME...", "Delete subscriptions and their positions", "delete subscription", func(ctx context.Context, c *rest.Client, name string) error {
		return c.Delete(ctx, c.Path("subscriptions", name), nil, nil)
	})
}

func subscriptionSeek(a *apiFlags) *cobra.Command {
	to := ""
	var offsets map[string]int64
	cmd := a.verb("seek NAME", "Move a subscription to a place in its topic", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		body, err := seekBody(to, offsets)
		if err != nil {
			return err
		}
		if err := c.Send(ctx, http.MethodPost, c.Path("subscriptions", args[0])+":seek", body, nil); err != nil {
			return fmt.Errorf("seek subscription %s: %w", args[0], err)
		}
		return nil
	})
	cmd.Flags().StringVar(&to, "to", "", "start, end, or a time such as 2026-01-31T12:00:00Z")
	cmd.Flags().StringToInt64Var(&offsets, "offset", nil, "partition=offset, several with commas; partitions that are not named go to the end")
	return cmd
}

// seekBody says where a subscription goes.
func seekBody(to string, offsets map[string]int64) (any, error) {
	at, err := time.Parse(time.RFC3339, to)
	switch {
	case (to == "") == (len(offsets) == 0):
		return nil, usageError{errors.New("say where to, once: --to start, --to end, --to a time, or --offset 0=5")}
	case len(offsets) > 0:
		return map[string]any{"offsets": offsets}, nil
	case to == "start" || to == "end":
		return map[string]any{"to": to}, nil
	case err != nil:
		return nil, usageError{fmt.Errorf("--to: %q is none of start, end, and a time such as 2026-01-31T12:00:00Z", to)}
	}
	return map[string]any{"time": at.UnixMilli()}, nil
}

func subscriptionPull(a *apiFlags) *cobra.Command {
	n, wait, ack := 10, time.Duration(0), false
	cmd := a.verb("pull NAME", "Take messages as a client would: they are given back, or done with --ack", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		path := c.Path("subscriptions", args[0])
		if c.Timeout > 0 {
			c.Timeout += wait
		}
		var got struct{ Messages []json.RawMessage }
		body := map[string]any{"max": n, "waitMs": wait.Milliseconds()}
		if err := c.Send(ctx, http.MethodPost, path+":pull", body, &got); err != nil {
			return fmt.Errorf("pull subscription %s: %w", args[0], err)
		}
		all, receipts, err := pulled(got.Messages)
		if err != nil {
			return err
		}
		if a.output == "json" {
			for _, one := range got.Messages {
				if err := a.line(one); err != nil {
					return err
				}
			}
		} else if err := a.show(nil, func(w io.Writer) { messageTable(w, all) }); err != nil {
			return err
		}
		if len(receipts) == 0 {
			return nil
		}
		verb, settle := ":nack", map[string]any{"receipts": receipts, "uncounted": true, "delayMs": 0}
		if ack {
			verb, settle = ":ack", map[string]any{"receipts": receipts}
		}
		return c.Send(ctx, http.MethodPost, path+verb, settle, nil)
	})
	addOutput(cmd, &a.output)
	cmd.Flags().IntVarP(&n, "count", "n", n, "how many at most, up to 1000")
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the first one, up to 30s")
	cmd.Flags().BoolVar(&ack, "ack", false, "they are done, and come to nobody again")
	return cmd
}

// pulled reads messages with their receipts.
func pulled(raw []json.RawMessage) (all []stored, receipts []string, err error) {
	for _, one := range raw {
		var m struct {
			stored
			Receipt string `json:"receipt"`
		}
		if err := json.Unmarshal(one, &m); err != nil {
			return nil, nil, err
		}
		all, receipts = append(all, m.stored), append(receipts, m.Receipt)
	}
	return all, receipts, nil
}

func subscriptionPause(a *apiFlags) *cobra.Command {
	return a.each("pause NAME...", "Send nothing more to an endpoint; messages wait", "pause subscription", func(ctx context.Context, c *rest.Client, name string) error {
		return c.Send(ctx, http.MethodPost, c.Path("subscriptions", name)+":pause", struct{}{}, nil)
	})
}

func subscriptionResume(a *apiFlags) *cobra.Command {
	return a.each("resume NAME...", "Send to an endpoint again that was paused or switched off", "resume subscription", func(ctx context.Context, c *rest.Client, name string) error {
		return c.Send(ctx, http.MethodPost, c.Path("subscriptions", name)+":enable", struct{}{}, nil)
	})
}

// errEndpoint has `subscription test` end with the exit code of a failure.
var errEndpoint = errors.New("the endpoint did not take it")

func subscriptionTest(a *apiFlags) *cobra.Command {
	data, contentType := "", "application/json"
	cmd := a.verb("test NAME", "Send one message to an endpoint, now and once; fails where it is not taken", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		body := &rest.Body{Type: contentType, Data: []byte(data)}
		var raw json.RawMessage
		err := c.Do(ctx, rest.Request{Method: http.MethodPost, Path: c.Path("subscriptions", args[0]) + ":test", Query: url.Values{"raw": {""}}, Body: body}, &raw)
		if err != nil {
			return fmt.Errorf("test subscription %s: %w", args[0], err)
		}
		var r struct {
			ID        string
			Status    int
			LatencyMs int64
			Class     string
			Detail    string
			Response  string
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		err = a.show(raw, func(w io.Writer) {
			row(w, "id", r.ID)
			row(w, "status", orNone(r.Status))
			row(w, "took", ms(r.LatencyMs))
			row(w, "answer", cell(r.Response, 200))
			if r.Class != "" {
				row(w, "failure", r.Class+": "+cell(r.Detail, 200))
			}
		})
		if err == nil && r.Class != "" {
			err = errEndpoint
		}
		return err
	})
	addOutput(cmd, &a.output)
	cmd.Flags().StringVarP(&data, "data", "d", "", `what to send; {"test":true} where nothing is said`)
	cmd.Flags().StringVar(&contentType, "content-type", contentType, "what that is")
	return cmd
}

func subscriptionAttempts(a *apiFlags) *cobra.Command {
	n := 20
	cmd := a.verb("attempts NAME", "Show what was tried with an endpoint, the newest first", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		type attempt struct {
			Time      time.Time
			ID        string
			Partition int
			Offset    int64
			Attempt   int
			Outcome   string
			Status    int
			LatencyMs int64
			Detail    string
			Next      *time.Time
		}
		path := c.Path("subscriptions", args[0], "attempts")
		if a.output == "json" {
			return c.Each(ctx, path, nil, "attempts", n, a.line)
		}
		var all []attempt
		err := c.Each(ctx, path, nil, "attempts", n, func(one json.RawMessage) error {
			var t attempt
			err := json.Unmarshal(one, &t)
			all = append(all, t)
			return err
		})
		if err != nil {
			return err
		}
		return a.show(nil, func(w io.Writer) {
			row(w, "TIME\tMESSAGE\tATTEMPT\tOUTCOME\tSTATUS\tTOOK\tNEXT\tDETAIL")
			for _, t := range all {
				next := "-"
				if t.Next != nil {
					next = t.Next.Format(time.RFC3339)
				}
				row(w, t.Time.Format(time.RFC3339), strconv.Itoa(t.Partition)+"-"+strconv.FormatInt(t.Offset, 10), t.Attempt, t.Outcome,
					orNone(t.Status), ms(t.LatencyMs), next, cell(t.Detail, 80))
			}
		})
	})
	addOutput(cmd, &a.output)
	cmd.Flags().IntVarP(&n, "count", "n", n, "how many; 0: all that are kept")
	return cmd
}
