package httpd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"polylog/core"
	"polylog/router"
)

// connectionJSON is a client's connection in answers.
type connectionJSON struct {
	Node      string            `json:"node"`
	ID        string            `json:"id"`
	Protocol  string            `json:"protocol"`
	Version   string            `json:"version,omitempty"`
	Remote    string            `json:"remote"`
	Local     string            `json:"local"`
	TLS       bool              `json:"tls"`
	Namespace string            `json:"namespace,omitempty"`
	User      string            `json:"user,omitempty"`
	ClientID  string            `json:"clientId,omitempty"`
	Software  string            `json:"software,omitempty"`
	Since     time.Time         `json:"since"`
	Received  *int64            `json:"receivedBytes,omitempty"`
	Details   map[string]string `json:"details,omitempty"`
}

// connectionsWanted is a page of a node's connections.
type connectionsWanted struct {
	After    uint64 `json:"after"`
	Limit    int    `json:"limit"`
	Protocol string `json:"protocol"`
	Search   string `json:"search"` // in lower case
}

type connectionsPage struct {
	Connections []connectionJSON `json:"connections"`
	Last        uint64           `json:"last"` // id of the last one
	More        bool             `json:"more"`
}

func (w *connectionsWanted) matches(k *router.Client) bool {
	if w.Protocol != "" && k.Protocol != w.Protocol {
		return false
	}
	if w.Search == "" {
		return true
	}
	for _, text := range []string{k.ClientID, k.Remote, k.User, k.Software, k.Namespace} {
		if strings.Contains(strings.ToLower(text), w.Search) {
			return true
		}
	}
	return false
}

// localConnections is a page of this node's connections.
func (a *api) localConnections(_ context.Context, w connectionsWanted) (connectionsPage, error) {
	node := a.router.Cluster().NodeID
	found, more := a.srv.opts.Clients.List(w.After, min(max(w.Limit, 1), maxPage), w.matches)
	p := connectionsPage{Connections: []connectionJSON{}, Last: w.After, More: more}
	for _, k := range found {
		p.Last = k.ID
		j := connectionJSON{
			Node: node, ID: strconv.FormatUint(k.ID, 10), Protocol: k.Protocol, Version: k.Version, Remote: k.Remote, Local: k.Local,
			TLS: k.TLS, Namespace: k.Namespace, User: clip(k.User), ClientID: clip(k.ClientID), Software: clip(k.Software), Since: k.Since.UTC(),
		}
		if k.Received >= 0 {
			j.Received = &k.Received
		}
		for _, d := range k.Details {
			if j.Details == nil {
				j.Details = map[string]string{}
			}
			j.Details[d.Name] = d.Value
		}
		p.Connections = append(p.Connections, j)
	}
	return p, nil
}

// maxSaid is how much is shown of what a client says of itself, in bytes: a page must not be as large as
// a thousand clients can make it.
const maxSaid = 1 << 10

// clip is the beginning of what a client says of itself.
func clip(text string) string {
	if len(text) <= maxSaid {
		return text
	}
	return strings.ToValidUTF8(text[:maxSaid], "") + "…"
}

// listConnections lists the connections of all nodes, node after node. One that does not answer is
// named, and passed over.
func listConnections(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "protocol", "search", "node"); err != nil {
		return err
	}
	if err := c.mayCluster(); err != nil {
		return err
	}
	limit, cursor, err := c.page()
	if err != nil {
		return err
	}
	w := connectionsWanted{Protocol: string(c.QueryArgs().Peek("protocol")), Search: strings.ToLower(string(c.QueryArgs().Peek("search")))}
	node, err := w.begin(cursor)
	if err != nil {
		return err
	}
	answer := struct {
		Connections []connectionJSON  `json:"connections"`
		Silent      map[string]string `json:"silent,omitempty"` // nodes that did not answer, and why
		Next        string            `json:"next,omitempty"`
	}{Connections: []connectionJSON{}}
	only := string(c.QueryArgs().Peek("node"))
	members := slices.Clone(c.router.Cluster().Members)
	slices.SortFunc(members, func(a, b core.Member) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range members {
		if m.ID < node || only != "" && m.ID != only {
			continue
		}
		if m.ID != node {
			w.After = 0
		}
		if w.Limit = limit - len(answer.Connections); w.Limit == 0 {
			answer.Next = m.ID + "/0"
			break
		}
		p, err := ask(c, m.ID, opConnections, w, c.localConnections)
		if err != nil {
			if answer.Silent == nil {
				answer.Silent = map[string]string{}
			}
			answer.Silent[m.ID] = err.Error()
			continue
		}
		answer.Connections = append(answer.Connections, p.Connections...)
		if p.More {
			answer.Next = m.ID + "/" + strconv.FormatUint(p.Last, 10)
			break
		}
	}
	return c.answer(200, answer)
}

// begin reads a cursor, NODE/ID: the node that the page begins at.
func (w *connectionsWanted) begin(cursor string) (node string, err error) {
	if cursor == "" {
		return "", nil
	}
	i := strings.LastIndexByte(cursor, '/')
	if i >= 0 {
		w.After, err = strconv.ParseUint(cursor[i+1:], 10, 64)
	}
	if i < 0 || err != nil {
		return "", invalid("this is no cursor of ours")
	}
	return cursor[:i], nil
}

// askTimeout bounds how long another node may take for its answer.
const askTimeout = 5 * time.Second
