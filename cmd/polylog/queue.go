package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// queue is what verbs show of one.
type queue struct {
	Name            string    `json:"name"`
	Created         time.Time `json:"created"`
	DeliveryLimit   int       `json:"deliveryLimit"`
	DeadLetterQueue string    `json:"deadLetterQueue"`
	SingleActive    bool      `json:"singleActive"`
	Counts          *counts   `json:"counts"`
}

// counts is what a queue's or a subscription's messages are doing.
type counts struct {
	Ready     int64 `json:"ready"`
	Unsettled int64 `json:"unsettled"`
	Delayed   int64 `json:"delayed"`
	Consumers int   `json:"consumers"`
}

// cells are the figures in a table; dashes where nobody counted.
func (n *counts) cells() (ready, unsettled, delayed, consumers string) {
	if n == nil {
		return "-", "-", "-", "-"
	}
	return fmt.Sprint(n.Ready), fmt.Sprint(n.Unsettled), fmt.Sprint(n.Delayed), fmt.Sprint(n.Consumers)
}

func newQueue(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := a.group("queue", "List, create, describe, peek at, purge and delete queues",
		queueList(a), queueDescribe(a), queueCreate(a), queuePeek(a), queuePurge(a), queueDelete(a))
	a.completeArgs(cmd, "queues", "describe", "peek", "purge", "delete")
	return cmd
}

func queueList(a *apiFlags) *cobra.Command {
	search, counted := "", true
	cmd := a.verb("list", "List queues and what is in them", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		q := url.Values{}
		if search != "" {
			q.Set("search", search)
		}
		if counted {
			q.Set("counts", "true")
		}
		return list(ctx, a, c, rest.Request{Path: c.Path("queues"), Query: q}, "queues", "QUEUE\tREADY\tUNSETTLED\tDELAYED\tCONSUMERS\tDEAD LETTERS TO", func(w io.Writer, q *queue) {
			ready, unsettled, delayed, consumers := q.Counts.cells()
			row(w, q.Name, ready, unsettled, delayed, consumers, cmp.Or(q.DeadLetterQueue, "-"))
		})
	})
	addOutput(cmd, &a.output)
	cmd.Flags().StringVar(&search, "search", "", "only queues with this in their name")
	cmd.Flags().BoolVar(&counted, "counts", true, "count messages; the leader is asked for each queue")
	return cmd
}

func queueDescribe(a *apiFlags) *cobra.Command {
	cmd := a.each("describe NAME...", "Show settings, messages and consumers", "describe queue", func(ctx context.Context, c *rest.Client, name string) error {
		var raw json.RawMessage
		if err := c.Get(ctx, c.Path("queues", name), nil, &raw); err != nil {
			return err
		}
		return object(a, raw, func(w io.Writer, q *queue) {
			ready, unsettled, delayed, consumers := q.Counts.cells()
			row(w, "queue", q.Name)
			row(w, "created", q.Created.Format(time.RFC3339))
			row(w, "ready", ready)
			row(w, "unsettled", unsettled)
			row(w, "delayed", delayed)
			row(w, "consumers", consumers)
			row(w, "delivery limit", orNone(q.DeliveryLimit))
			row(w, "dead letters to", cmp.Or(q.DeadLetterQueue, "-"))
			row(w, "single active consumer", q.SingleActive)
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}

// orNone is a limit, of which 0 is none.
func orNone(limit int) string {
	if limit <= 0 {
		return "none"
	}
	return fmt.Sprint(limit)
}

func queueCreate(a *apiFlags) *cobra.Command {
	var spec struct {
		DeliveryLimit   int    `json:"deliveryLimit,omitempty"`
		DeadLetterQueue string `json:"deadLetterQueue,omitempty"`
		SingleActive    bool   `json:"singleActive,omitempty"`
	}
	cmd := a.each("create NAME...", "Create queues; one that is there with the same settings is left alone", "create queue", func(ctx context.Context, c *rest.Client, name string) error {
		return c.Send(ctx, http.MethodPut, c.Path("queues", name), &spec, nil)
	})
	cmd.Flags().IntVar(&spec.DeliveryLimit, "delivery-limit", 0, "failed deliveries that a message may have before it is dead; 0: any number")
	cmd.Flags().StringVar(&spec.DeadLetterQueue, "dead-letter-queue", "", "queue that gets the dead")
	cmd.Flags().BoolVar(&spec.SingleActive, "single-active", false, "one consumer at a time gets messages")
	a.completeFlag(cmd, "dead-letter-queue", "queues")
	return cmd
}

func queuePurge(a *apiFlags) *cobra.Command {
	return a.each("purge NAME...", "Drop the messages that are ready", "purge queue", func(ctx context.Context, c *rest.Client, name string) error {
		var gone struct{ Messages int64 }
		if err := c.Send(ctx, http.MethodPost, c.Path("queues", name)+":purge", struct{}{}, &gone); err != nil {
			return err
		}
		return a.say("queue %s: %d messages dropped", name, gone.Messages)
	})
}

func queueDelete(a *apiFlags) *cobra.Command {
	unused, empty := false, false
	cmd := a.each("delete NAME...", "Delete queues and what is in them", "delete queue", func(ctx context.Context, c *rest.Client, name string) error {
		q := url.Values{}
		if unused {
			q.Set("ifUnused", "true")
		}
		if empty {
			q.Set("ifEmpty", "true")
		}
		var gone struct{ Messages int64 }
		if err := c.Delete(ctx, c.Path("queues", name), q, &gone); err != nil {
			return err
		}
		return a.say("queue %s deleted, with %d messages", name, gone.Messages)
	})
	cmd.Flags().BoolVar(&unused, "if-unused", false, "only where it has no consumers")
	cmd.Flags().BoolVar(&empty, "if-empty", false, "only where it has no messages")
	return cmd
}

func queuePeek(a *apiFlags) *cobra.Command {
	n, offset := 10, int64(0)
	cmd := a.verb("peek NAME", "Look at what is in a queue without consuming it", cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, args []string) error {
		q := url.Values{}
		if offset > 0 {
			q.Set("offset", fmt.Sprint(offset))
		}
		return a.showMessages(ctx, c, c.Path("queues", args[0], "messages"), q, n, messageTable)
	})
	addOutput(cmd, &a.output)
	cmd.Flags().IntVarP(&n, "count", "n", n, "how many; 0: all")
	cmd.Flags().Int64Var(&offset, "offset", 0, "from this offset on")
	return cmd
}
