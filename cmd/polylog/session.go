package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

// session is what verbs show of a session of MQTT.
type session struct {
	ClientID          string     `json:"clientId"`
	Connected         bool       `json:"connected"`
	Node              string     `json:"node"`
	User              string     `json:"user"`
	ExpirySeconds     *uint32    `json:"expirySeconds"`
	Disconnected      *time.Time `json:"disconnected"`
	Expires           *time.Time `json:"expires"`
	SubscriptionCount int        `json:"subscriptionCount"`
	Subscriptions     []struct {
		Filter string `json:"filter"`
		Share  string `json:"share"`
		QoS    int    `json:"qos"`
		Counts *struct {
			Ready     int64 `json:"ready"`
			Unsettled int64 `json:"unsettled"`
		} `json:"counts"`
	} `json:"subscriptions"`
}

func newSession(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	cmd := a.group("session", "List, describe and end sessions of MQTT, of clients that are connected and of those that are away",
		sessionList(a), sessionDescribe(a), sessionDelete(a))
	a.completeArgs(cmd, "sessions", "describe", "delete")
	return cmd
}

func sessionList(a *apiFlags) *cobra.Command {
	search, connected, away := "", false, false
	cmd := a.verb("list", "List sessions of all nodes, by client id", cobra.NoArgs, func(ctx context.Context, c *rest.Client, _ []string) error {
		if connected && away {
			return usageError{errors.New("--connected and --away leave nothing")}
		}
		q := url.Values{}
		if search != "" {
			q.Set("search", search)
		}
		if connected || away {
			q.Set("connected", strconv.FormatBool(connected))
		}
		return list(ctx, a, c, rest.Request{Path: c.Path("sessions"), Query: q}, "sessions", "CLIENT\tNODE\tUSER\tSUBSCRIPTIONS\tEXPIRY\tAWAY", func(w io.Writer, s *session) {
			row(w, s.ClientID, cmp.Or(s.Node, "-"), cmp.Or(s.User, "-"), s.SubscriptionCount, s.expiry(), s.away())
		})
	})
	addOutput(cmd, &a.output)
	cmd.Flags().StringVar(&search, "search", "", "only those with this in their client id")
	cmd.Flags().BoolVar(&connected, "connected", false, "only those whose client is connected")
	cmd.Flags().BoolVar(&away, "away", false, "only those whose client is not")
	return cmd
}

// expiry is for how long it goes on without a connection.
func (s *session) expiry() string {
	if s.ExpirySeconds == nil {
		return "never"
	}
	return (time.Duration(*s.ExpirySeconds) * time.Second).String()
}

func (s *session) away() string {
	if s.Disconnected == nil {
		return "-"
	}
	return since(*s.Disconnected, time.Now())
}

func sessionDescribe(a *apiFlags) *cobra.Command {
	cmd := a.each("describe CLIENT...", "Show a session's subscriptions and what waits for them", "describe session", func(ctx context.Context, c *rest.Client, name string) error {
		var raw json.RawMessage
		if err := c.Get(ctx, c.Path("sessions", name), nil, &raw); err != nil {
			return err
		}
		return object(a, raw, func(w io.Writer, s *session) {
			row(w, "client", s.ClientID)
			row(w, "node", cmp.Or(s.Node, "-"))
			row(w, "user", cmp.Or(s.User, "-"))
			row(w, "expiry", s.expiry())
			row(w, "away for", s.away())
			if s.Expires != nil {
				row(w, "expires", s.Expires.Format(time.RFC3339))
			}
			row(w, "")
			row(w, "FILTER\tQOS\tREADY\tUNSETTLED")
			for _, u := range s.Subscriptions {
				filter, ready, unsettled := u.Filter, "-", "-"
				if u.Share != "" {
					filter = "$share/" + u.Share + "/" + filter
				}
				if u.Counts != nil {
					ready, unsettled = strconv.FormatInt(u.Counts.Ready, 10), strconv.FormatInt(u.Counts.Unsettled, 10)
				}
				row(w, filter, u.QoS, ready, unsettled)
			}
		})
	})
	addOutput(cmd, &a.output)
	return cmd
}

func sessionDelete(a *apiFlags) *cobra.Command {
	return a.each("delete CLIENT...", "End sessions, with what waits for them, and their clients' connections", "delete session", func(ctx context.Context, c *rest.Client, name string) error {
		return c.Delete(ctx, c.Path("sessions", name), nil, nil)
	})
}
