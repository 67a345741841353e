package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

func newNamespace(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := &cobra.Command{Use: "namespace", Short: "List, create and delete namespaces, AMQP's virtual hosts", Args: cobra.NoArgs, RunE: verbMissing}
	a.addAddress(cmd)
	path := func(name string) string { return (&rest.Client{Namespace: name}).Path() }
	listed := a.verb("list", "List namespaces", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		var answer struct{ Namespaces json.RawMessage }
		if err := c.Get(ctx, "/v1/namespaces", nil, &answer); err != nil {
			return err
		}
		type namespace struct {
			Name    string
			Created *time.Time
		}
		return object(a, answer.Namespaces, func(w io.Writer, all *[]namespace) {
			row(w, "NAMESPACE\tCREATED")
			for _, n := range *all {
				created := "-"
				if n.Created != nil {
					created = n.Created.Format(time.RFC3339)
				}
				row(w, n.Name, created)
			}
		})
	})
	addOutput(listed, &a.output)
	cmd.AddCommand(listed,
		a.each("create NAME...", "Create namespaces; one that is there is left alone", "create namespace", func(ctx context.Context, c *rest.Client, name string) error {
			return c.Send(ctx, http.MethodPut, path(name), struct{}{}, nil)
		}),
		a.each("delete NAME...", "Delete namespaces and everything in them", "delete namespace", func(ctx context.Context, c *rest.Client, name string) error {
			return c.Delete(ctx, path(name), nil, nil)
		}))
	return cmd
}
