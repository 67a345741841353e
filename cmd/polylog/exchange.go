package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// exchange is what verbs show of one.
type exchange struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	AutoDelete bool           `json:"autoDelete"`
	Internal   bool           `json:"internal"`
	OfTopic    bool           `json:"ofTopic"`
	Arguments  []storedHeader `json:"arguments"`
}

// binding is where an exchange leads.
type binding struct {
	Queue     string         `json:"queue"`
	Exchange  string         `json:"exchange"`
	Key       string         `json:"key"`
	Arguments []storedHeader `json:"arguments"`
}

func newExchange(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := a.group("exchange", "List, create and delete AMQP's exchanges", exchangeList(a), exchangeCreate(a), exchangeDelete(a))
	a.completeArgs(cmd, "exchanges", "delete")
	return cmd
}

func newBinding(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := a.group("binding", "List, add and remove bindings of exchanges", bindingList(a),
		bindingChange(a, "create EXCHANGE", "Bind a queue, a topic or an exchange to an exchange", http.MethodPost),
		bindingChange(a, "delete EXCHANGE", "Remove a binding", http.MethodDelete))
	a.completeArgs(cmd, "exchanges", "list", "create", "delete")
	return cmd
}

// arguments are an exchange's or a binding's in one cell.
func arguments(all []storedHeader) string {
	if len(all) == 0 {
		return "-"
	}
	var b []string
	for i := range all {
		b = append(b, all[i].Name+"="+all[i].text())
	}
	return cell(strings.Join(b, " "), 120)
}

// typed are name=value texts as arguments: numbers and truth values are those, other values are text.
func typed(flag string, texts []string) (map[string]any, error) {
	all, err := pairs(flag, texts)
	m := map[string]any{}
	for name, text := range all {
		var v any = text
		if json.Valid([]byte(text)) && strings.IndexAny(text, `"{[n`) != 0 {
			v = json.RawMessage(text)
		}
		m[name] = v
	}
	return m, err
}

func exchangeList(a *apiFlags) *cobra.Command {
	cmd := a.verb("list", "List exchanges and their types", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		return list(ctx, a, c, rest.Request{Path: c.Path("exchanges")}, "exchanges", "EXCHANGE\tTYPE\tARGUMENTS\tPROPERTIES", func(w io.Writer, x *exchange) {
			var properties []string
			for _, p := range []struct {
				is   bool
				name string
			}{{x.AutoDelete, "auto-delete"}, {x.Internal, "internal"}, {x.OfTopic, "of a topic"}} {
				if p.is {
					properties = append(properties, p.name)
				}
			}
			name := x.Name
			if name == "" {
				name = "(default)"
			}
			row(w, name, x.Type, arguments(x.Arguments), strings.Join(append(properties, ""), " "))
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}

func exchangeCreate(a *apiFlags) *cobra.Command {
	kind, autoDelete, internal := "topic", false, false
	var args []string
	cmd := a.each("create NAME...", "Create exchanges; one that is there with the same settings is left alone", "create exchange", func(ctx context.Context, c *rest.Client, name string) error {
		given, err := typed("--argument", args)
		if err != nil {
			return err
		}
		body := map[string]any{"type": kind, "autoDelete": autoDelete, "internal": internal, "arguments": given}
		return c.Send(ctx, http.MethodPut, c.Path("exchanges", name), body, nil)
	})
	cmd.Flags().StringVarP(&kind, "type", "t", kind, "direct, fanout, topic, headers and others")
	cmd.Flags().BoolVar(&autoDelete, "auto-delete", false, "it goes with its last binding")
	cmd.Flags().BoolVar(&internal, "internal", false, "only exchanges publish to it")
	cmd.Flags().StringArrayVarP(&args, "argument", "a", nil, "argument, name=value; may be repeated")
	return cmd
}

func exchangeDelete(a *apiFlags) *cobra.Command {
	unused := false
	cmd := a.each("delete NAME...", "Delete exchanges and their bindings", "delete exchange", func(ctx context.Context, c *rest.Client, name string) error {
		q := url.Values{}
		if unused {
			q.Set("ifUnused", "true")
		}
		return c.Delete(ctx, c.Path("exchanges", name), q, nil)
	})
	cmd.Flags().BoolVar(&unused, "if-unused", false, "only where it has no bindings")
	return cmd
}

func bindingList(a *apiFlags) *cobra.Command {
	cmd := a.each("list EXCHANGE...", "List where exchanges lead", "bindings of exchange", func(ctx context.Context, c *rest.Client, name string) error {
		var raw struct{ Bindings json.RawMessage }
		if err := c.Get(ctx, c.Path("exchanges", name, "bindings"), nil, &raw); err != nil {
			return err
		}
		return object(a, raw.Bindings, func(w io.Writer, all *[]binding) {
			row(w, "EXCHANGE\tKEY\tTO\tARGUMENTS")
			for _, b := range *all {
				to := "queue " + b.Queue
				if b.Exchange != "" {
					to = "exchange " + b.Exchange
				}
				row(w, name, b.Key, to, arguments(b.Arguments))
			}
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}

func bindingChange(a *apiFlags, use, short, method string) *cobra.Command {
	queue, to, key := "", "", ""
	var args []string
	cmd := a.verb(use, short, cobra.ExactArgs(1), func(ctx context.Context, c *rest.Client, names []string) error {
		if (queue == "") == (to == "") {
			return usageError{fmt.Errorf("a binding leads to a queue or a topic, --queue, or to an exchange, --exchange")}
		}
		given, err := typed("--argument", args)
		if err != nil {
			return err
		}
		body := map[string]any{"key": key, "arguments": given}
		if queue != "" {
			body["queue"] = queue
		} else {
			body["exchange"] = to
		}
		if err := c.Send(ctx, method, c.Path("exchanges", names[0], "bindings"), body, nil); err != nil {
			return fmt.Errorf("binding of exchange %s: %w", names[0], err)
		}
		return nil
	})
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "queue that it leads to; a topic, where no queue has the name")
	cmd.Flags().StringVarP(&to, "exchange", "e", "", "exchange that it leads to, instead")
	cmd.Flags().StringVarP(&key, "key", "k", "", "binding key")
	cmd.Flags().StringArrayVarP(&args, "argument", "a", nil, "argument, name=value; may be repeated")
	a.completeFlag(cmd, "queue", "queues")
	a.completeFlag(cmd, "exchange", "exchanges")
	return cmd
}
