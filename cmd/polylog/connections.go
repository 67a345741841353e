package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// connection is a client's connection to one of the nodes.
type connection struct {
	Node      string    `json:"node"`
	Protocol  string    `json:"protocol"`
	Version   string    `json:"version"`
	Remote    string    `json:"remote"`
	TLS       bool      `json:"tls"`
	Namespace string    `json:"namespace"`
	User      string    `json:"user"`
	ClientID  string    `json:"clientId"`
	Software  string    `json:"software"`
	Since     time.Time `json:"since"`
	Received  *int64    `json:"receivedBytes"`
}

func newConnections(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	q := url.Values{}
	protocol, search, node := "", "", ""
	cmd := a.verb("connections", "List clients' connections to all nodes", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		for name, value := range map[string]string{"protocol": protocol, "search": search, "node": node} {
			if value != "" {
				q.Set(name, value)
			}
		}
		return a.connections(ctx, c, q)
	})
	a.addAddress(cmd)
	addOutput(cmd, &a.output)
	cmd.Flags().StringVar(&protocol, "protocol", "", "only those of kafka, amqp, mqtt or http")
	cmd.Flags().StringVar(&search, "search", "", "only those with this in their address, client id, user or software")
	cmd.Flags().StringVar(&node, "node", "", "only those to this node")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"kafka", "amqp", "mqtt", "http"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// connections lists them. Nodes that did not answer are named, so that nobody takes a part for all.
func (a *apiFlags) connections(ctx context.Context, c *rest.Client, q url.Values) error {
	raw := []json.RawMessage{}
	silent := map[string]string{}
	for {
		q.Set("limit", "1000")
		var page struct {
			Connections []json.RawMessage
			Silent      map[string]string
			Next        string
		}
		if err := c.Get(ctx, "/v1/admin/connections", q, &page); err != nil {
			return err
		}
		raw = append(raw, page.Connections...)
		maps.Copy(silent, page.Silent)
		if page.Next == "" {
			break
		}
		q.Set("cursor", page.Next)
	}
	err := a.show(raw, func(w io.Writer) {
		row(w, "NODE\tPROTOCOL\tREMOTE\tUSER\tCLIENT\tSOFTWARE\tSINCE\tRECEIVED")
		for _, one := range raw {
			var k connection
			_ = json.Unmarshal(one, &k) // it was JSON, and what is missing is empty
			received := "-"
			if k.Received != nil {
				received = bytesText(*k.Received)
			}
			row(w, k.Node, protocolText(&k), k.Remote, cell(cmp.Or(k.User, "-"), 30), cell(cmp.Or(k.ClientID, "-"), 40), cell(cmp.Or(k.Software, "-"), 30),
				since(k.Since, time.Now()), received)
		}
	})
	for node, why := range silent {
		_, _ = fmt.Fprintf(a.process.err, "polylog: node %s did not answer, its connections are missing: %s\n", strconv.Quote(node), why)
	}
	return err
}

func protocolText(k *connection) string {
	text := k.Protocol
	if k.Version != "" {
		text += " " + k.Version
	}
	if k.TLS {
		text += " TLS"
	}
	return text
}
