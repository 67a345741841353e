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
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// Dead letters are in queues that others name for their dead: there is no other mark on them.

func newDLQ(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := a.group("dlq", "List queues of dead letters, show what is in them and why, move it back", dlqList(a), dlqShow(a), dlqRedrive(a))
	a.completeArgs(cmd, "queues", "show", "redrive")
	return cmd
}

// deadQueue is a queue that gets dead letters.
type deadQueue struct {
	Name    string   `json:"name"`
	Of      []string `json:"of"`                // who lets their dead go there
	Missing bool     `json:"missing,omitempty"` // it does not exist: the dead are gone
	Counts  *counts  `json:"counts,omitempty"`
}

func dlqList(a *apiFlags) *cobra.Command {
	cmd := a.verb("list", "List queues that get dead letters, from whom, and how many are there", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		all, err := deadQueues(ctx, c)
		if err != nil {
			return err
		}
		return a.show(all, func(w io.Writer) {
			row(w, "QUEUE\tDEAD LETTERS\tUNSETTLED\tOF")
			for _, q := range all {
				ready, unsettled, _, _ := q.Counts.cells()
				if q.Missing {
					ready = "missing"
				}
				row(w, q.Name, ready, unsettled, cell(strings.Join(q.Of, ", "), 100))
			}
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}

// deadQueues are all queues that others name for their dead, by name.
func deadQueues(ctx context.Context, c *rest.Client) ([]deadQueue, error) {
	of := map[string][]string{}
	err := c.Each(ctx, c.Path("queues"), nil, "queues", 0, func(one json.RawMessage) error {
		var q queue
		err := json.Unmarshal(one, &q)
		if q.DeadLetterQueue != "" {
			of[q.DeadLetterQueue] = append(of[q.DeadLetterQueue], "queue "+q.Name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = c.Each(ctx, c.Path("subscriptions"), nil, "subscriptions", 0, func(one json.RawMessage) error {
		var s subscription
		err := json.Unmarshal(one, &s)
		if s.DeadLetterQueue != "" {
			of[s.DeadLetterQueue] = append(of[s.DeadLetterQueue], "subscription "+s.Name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all := []deadQueue{}
	for name, who := range of {
		var q queue
		var p *rest.Problem
		err := c.Get(ctx, c.Path("queues", name), nil, &q)
		missing := errors.As(err, &p) && p.Status == http.StatusNotFound
		if err != nil && !missing {
			return nil, err
		}
		all = append(all, deadQueue{name, who, missing, q.Counts})
	}
	slices.SortFunc(all, func(a, b deadQueue) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func dlqShow(a *apiFlags) *cobra.Command {
	n := 20
	cmd := a.verb("show QUEUE", "Show dead letters and what they died of, without consuming them", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		return a.showMessages(ctx, c, c.Path("queues", args[0], "messages"), url.Values{}, n, deadTable)
	})
	addOutput(cmd, &a.output)
	cmd.Flags().IntVarP(&n, "count", "n", n, "how many; 0: all")
	return cmd
}

func deadTable(w io.Writer, all []stored) {
	row(w, "ID\tDIED\tIN\tCAUSE\tKEY\tVALUE")
	for i := range all {
		m := &all[i]
		died, in, cause := m.cause()
		row(w, m.ID, died, in, cause, m.keyText(), m.valueText(60))
	}
}

// cause is when, where and of what a message died: of an endpoint its headers say so, of a queue its deaths.
func (m *stored) cause() (died, in, cause string) {
	if who := m.header("x-webhook-subscription"); who != "" {
		cause = m.header("x-webhook-cause")
		if status := m.header("x-webhook-status"); status != "" {
			cause += " " + status
		}
		if detail := m.header("x-webhook-detail"); detail != "" {
			cause += ": " + cell(detail, 60)
		}
		return m.header("x-webhook-died"), "subscription " + who, cause
	}
	if len(m.Deaths) == 0 {
		return "-", "-", "-"
	}
	d := m.Deaths[len(m.Deaths)-1]
	return d.Time.Format(time.RFC3339), "queue " + d.Queue, d.Reason
}

// redriveBatch is how many messages one call moves: few enough for a bar that moves.
const redriveBatch = 1000

func dlqRedrive(a *apiFlags) *cobra.Command {
	var chosen filter
	topic, queue, sub, limit, rate := "", "", "", 0, 0
	cmd := a.verb("redrive QUEUE", "Move dead letters to where they came from, or somewhere else", cobra.ExactArgs(1), nil)
	cmd.Long = "redrive takes messages out of a queue of dead letters: those of an endpoint go to it once more, others to the\n" +
		"queue that they died in, unless --to-topic, --to-queue or --to-subscription says otherwise. Each is moved in one\n" +
		"step: interrupted, it is here or there."
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to := map[string]string{}
		for name, value := range map[string]string{"topic": topic, "queue": queue, "subscription": sub} {
			if value != "" {
				to[name] = value
			}
		}
		if len(to) > 1 {
			return usageError{errors.New("give one of --to-topic, --to-queue and --to-subscription")}
		}
		return a.call(cmd.Context(), func(ctx context.Context, c *rest.Client) error {
			d := redrive{apiFlags: a, path: c.Path("queues", args[0]), body: map[string]any{}, limit: limit}
			if len(to) > 0 {
				d.body["to"] = to
			}
			if f := chosen.orNil(); f != nil {
				d.body["filter"] = f
			}
			if rate > 0 {
				d.body["ratePerSecond"] = rate
			}
			if err := d.run(ctx, c); err != nil {
				return fmt.Errorf("redrive queue %s: %w", args[0], err)
			}
			return nil
		})
	}
	chosen.add(cmd)
	cmd.Flags().StringVar(&topic, "to-topic", "", "topic that gets them")
	cmd.Flags().StringVar(&queue, "to-queue", "", "queue that gets them")
	cmd.Flags().StringVar(&sub, "to-subscription", "", "subscription whose endpoint gets them")
	cmd.Flags().IntVar(&limit, "max", 0, "how many at most; 0: all that are there now")
	cmd.Flags().IntVar(&rate, "rate", 0, "messages a second; 0: any number")
	a.completeFlag(cmd, "to-topic", "topics")
	a.completeFlag(cmd, "to-queue", "queues")
	a.completeFlag(cmd, "to-subscription", "subscriptions")
	return cmd
}

// redrive is one redrive, in calls of redriveBatch messages.
type redrive struct {
	*apiFlags
	path           string
	body           map[string]any
	limit          int
	moved, skipped int
}

// run moves what was there when it began: what dies again meanwhile is not moved over and over.
func (d *redrive) run(ctx context.Context, c *rest.Client) (err error) {
	var q queue
	if err := c.Get(ctx, d.path, nil, &q); err != nil {
		return err
	}
	total := d.limit
	if q.Counts != nil && (total == 0 || int(q.Counts.Ready) < total) {
		total = int(q.Counts.Ready)
	}
	bar := newBar(d.process, "messages", int64(total))
	defer func() {
		bar.end()
		if d.moved+d.skipped > 0 || err == nil {
			err = errors.Join(err, d.say("%d messages moved, %d passed over", d.moved, d.skipped))
		}
	}()
	for left := total; left > 0; {
		d.body["max"] = min(left, redriveBatch)
		var r struct {
			Moved, Skipped int
			More           bool
		}
		if err := c.Send(ctx, http.MethodPost, d.path+":redrive", d.body, &r); err != nil {
			return err
		}
		d.moved += r.Moved
		d.skipped = r.Skipped // the same ones are passed over in each call
		left -= r.Moved
		bar.at(int64(d.moved))
		if !r.More || r.Moved == 0 {
			return nil
		}
	}
	return nil
}
