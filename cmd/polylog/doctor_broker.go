package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"polylog/cmd/polylog/rest"
	"polylog/router/admin"
)

// broker looks at a running broker and its cluster.
func (d *doctor) broker(ctx context.Context, c *rest.Client) {
	if !d.reachable(ctx, c) {
		return
	}
	h, sent, err := d.health(ctx, c)
	if err != nil {
		d.fail("cluster", whatToDo(err), "it cannot be asked: %v", err)
		return
	}
	d.quorum(h)
	d.clocks(h, sent)
	d.versions(h)
	d.nodes(ctx, c, h)
	d.listeners(ctx, h)
	for _, one := range []struct {
		check string
		do    func(context.Context, *rest.Client) error
	}{{"groups", d.groups}, {"queues", d.queues}, {"dead letters", d.deadLetters}, {"webhooks", d.webhooks}, {"hooks", d.hooks}} {
		if err := one.do(ctx, c); err != nil {
			d.fail(one.check, whatToDo(err), "they cannot be asked for: %v", err)
		}
	}
}

// whatToDo is said where the broker would not answer.
func whatToDo(err error) string {
	if p, ok := errors.AsType[*rest.Problem](err); ok && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden) {
		return "log in as somebody with the tag monitoring: see --user"
	}
	return "look at the broker's log"
}

// reachable asks every address that was given; false where none answers.
func (d *doctor) reachable(ctx context.Context, c *rest.Client) bool {
	answers := false
	for _, s := range c.Servers {
		one := c.Clone()
		one.Servers, one.Timeout = rest.Servers{s}, min(d.timeout, dialTimeout)
		var ready struct{ Reasons []string }
		err := one.Get(ctx, "/health/ready", nil, &ready)
		check := "broker at " + strings.TrimPrefix(s, "http://")
		var p *rest.Problem
		switch {
		case err == nil:
			answers = true
			d.ok(check, "it answers and is ready")
		case errors.As(err, &p):
			answers = true
			d.fail(check, "wait for its start to end, or look at its log: it says what it waits for", "it answers, and is not ready: %v", err)
		default:
			d.fail(check, "start it, or name another one with --server; http-listen says where it is", "%v", err)
		}
	}
	return answers
}

// health asks for the health of all nodes; sent is when, in the middle of asking.
func (d *doctor) health(ctx context.Context, c *rest.Client) (h admin.Health, sent time.Time, err error) {
	begin := time.Now()
	err = c.Get(ctx, "/v1/admin/health", nil, &h)
	return h, begin.Add(time.Since(begin) / 2), err
}

func (d *doctor) quorum(h admin.Health) {
	voters, running := 0, 0
	for i, m := range h.Members {
		if m.Voter {
			voters++
			if h.Nodes[i].Status != nil {
				running++
			}
		}
	}
	need := voters/2 + 1
	switch {
	case h.Leader == "":
		d.fail("leader", "start nodes until a majority runs; polylog cluster health says which are missing", "there is none: %d of %d voters can be reached", running, voters)
	case running < need:
		d.fail("majority", "start the nodes that are missing", "%d of %d voters run, %d are needed", running, voters, need)
	case running == need && voters > 1:
		d.warn("majority", "start the nodes that are missing: when one more fails the cluster stops", "%d of %d voters run, and all of them are needed", running, voters)
	case voters == 1:
		d.warn("majority", "a cluster of three goes on without any one of its nodes: docs/cluster.md", "there is one node; when it fails nobody is served")
	default:
		d.ok("majority", "%d of %d voters run, node %s leads", running, voters, h.Leader)
	}
	for _, p := range h.Problems {
		d.warn("cluster", "polylog cluster health has more", "%s", p)
	}
}

// clocks compares the nodes' clocks with each other, and with this machine's.
func (d *doctor) clocks(h admin.Health, sent time.Time) {
	var least, most time.Duration
	first := true
	for _, n := range h.Nodes {
		if n.Status == nil {
			continue
		}
		off := n.Status.Clock.Sub(sent)
		if first {
			least, most, first = off, off, false
		}
		least, most = min(least, off), max(most, off)
	}
	apart := most - least
	switch {
	case first:
		return
	case apart > clockApart:
		d.fail("clocks", "have the nodes follow a time server (chrony, systemd-timesyncd)", "the nodes' are up to %v apart", apart.Round(time.Millisecond))
	case max(most.Abs(), least.Abs()) > clockApart:
		d.warn("clocks", "have this machine and the nodes follow a time server", "the nodes' are %v from this machine's", max(most.Abs(), least.Abs()).Round(time.Millisecond))
	default:
		d.ok("clocks", "the nodes' are less than %v apart", clockApart)
	}
}

func (d *doctor) versions(h admin.Health) {
	versions := map[string]bool{}
	for _, n := range h.Nodes {
		if n.Status != nil {
			versions[n.Status.Version] = true
		}
	}
	all := strings.Join(slices.Sorted(maps.Keys(versions)), ", ")
	if len(versions) > 1 {
		d.warn("versions", "bring all nodes to the newest one, one after the other", "the nodes run %s", all)
		return
	}
	d.ok("versions", "%s", all)
}

// nodes looks at each node's disk, files and log.
func (d *doctor) nodes(ctx context.Context, c *rest.Client, h admin.Health) {
	for _, n := range h.Nodes {
		if n.Status == nil {
			d.fail("node "+n.ID, "start it, or take it out with polylog cluster remove", "it does not answer: %s", n.Error)
			continue
		}
		d.space("disk space of node "+n.ID, n.Status.DiskFree)
		var m struct{ Series map[string][]*float64 }
		names := "process_open_fds,process_max_fds,polylog_segments_unrepaired,polylog_amqp_blocked_connections"
		if err := c.Get(ctx, "/v1/admin/metrics", url.Values{"node": {n.ID}, "names": {names}}, &m); err != nil {
			d.warn("node "+n.ID, "look at its log", "its figures cannot be read: %v", err)
			continue
		}
		value := func(name string) float64 {
			if s := m.Series[name]; len(s) > 0 && s[len(s)-1] != nil {
				return *s[len(s)-1]
			}
			return 0
		}
		open, most := value("process_open_fds"), value("process_max_fds")
		switch {
		case most > 0 && open > 0.8*most:
			d.warn("open files of node "+n.ID, "raise LimitNOFILE, or have clients share connections", "%.0f of %.0f", open, most)
		case most > 0 && most < fewFiles:
			d.warn("open files of node "+n.ID, "raise LimitNOFILE of the systemd unit", "it may have %.0f", most)
		case most > 0:
			d.ok("open files of node "+n.ID, "%.0f of %.0f", open, most)
		}
		if bad := value("polylog_segments_unrepaired"); bad > 0 {
			d.fail("log of node "+n.ID, "look at the disk; polylog check says what is damaged, docs/operation.md what to do", "%.0f segments are damaged", bad)
		}
		if held := value("polylog_amqp_blocked_connections"); held > 0 {
			d.warn("node "+n.ID, "make room on its disk or in its memory: publishers of AMQP wait", "%.0f AMQP connections are blocked", held)
		}
	}
}

// listeners tries to connect to what the nodes say of themselves.
func (d *doctor) listeners(ctx context.Context, h admin.Health) {
	dialer := net.Dialer{Timeout: min(d.timeout, 2*time.Second)}
	for i, m := range h.Members {
		if h.Nodes[i].Status == nil {
			continue
		}
		open := 0
		for _, name := range slices.Sorted(maps.Keys(m.Endpoints)) {
			conn, err := dialer.DialContext(ctx, "tcp", m.Endpoints[name])
			if err != nil {
				d.fail("listener "+name+" of node "+m.ID, "look at firewalls, and at what the node advertises: clients elsewhere cannot reach it either", "%s cannot be reached from here: %v", m.Endpoints[name], plain(err))
				continue
			}
			_ = conn.Close() // nothing was sent
			open++
		}
		if open == len(m.Endpoints) {
			d.ok("listeners of node "+m.ID, "all %d can be reached from here", open)
		}
	}
}

// groups looks for readers that are far behind.
func (d *doctor) groups(ctx context.Context, c *rest.Client) error {
	l := &look{topics: map[string]*topTopic{}, groups: map[string]*topGroup{}}
	if err := l.detail(ctx, c); err != nil {
		return err
	}
	behind := 0
	for _, name := range slices.Sorted(maps.Keys(l.groups)) {
		if g := l.groups[name]; g.Lag > d.lag {
			behind++
			d.warn("group "+name, "add members or partitions, or see with polylog group describe which member stands still", "it is %d messages behind", g.Lag)
		}
	}
	if behind == 0 {
		d.ok("groups", "none of %d is more than %d messages behind", len(l.groups), d.lag)
	}
	return nil
}

// queues looks for queues that fill and that nobody reads.
func (d *doctor) queues(ctx context.Context, c *rest.Client) error {
	full, n := 0, 0
	err := c.Each(ctx, c.Path("queues"), url.Values{"counts": {"true"}}, "queues", maxTopQueues, func(one json.RawMessage) error {
		var q queue
		if err := json.Unmarshal(one, &q); err != nil {
			return err
		}
		n++
		if q.Counts != nil && q.Counts.Ready > d.lag {
			full++
			advice := "add consumers, or see with polylog connections what they do"
			if q.Counts.Consumers == 0 {
				advice = "start a consumer, or delete it if nobody needs it"
			}
			d.warn("queue "+q.Name, advice, "%d messages wait, %d consumers read", q.Counts.Ready, q.Counts.Consumers)
		}
		return nil
	})
	if err == nil && full == 0 {
		d.ok("queues", "in none of %d more than %d messages wait", n, d.lag)
	}
	return err
}

func (d *doctor) deadLetters(ctx context.Context, c *rest.Client) error {
	all, err := deadQueues(ctx, c)
	bad := 0
	for _, q := range all {
		switch {
		case q.Missing:
			bad++
			d.warn("dead letters", "polylog queue create "+q.Name, "queue %s does not exist: what dies in %s is gone", q.Name, strings.Join(q.Of, ", "))
		case q.Counts != nil && q.Counts.Ready > 0:
			bad++
			d.warn("dead letters", fmt.Sprintf("polylog dlq show %s says why, polylog dlq redrive %[1]s moves them back", q.Name), "%d in queue %s", q.Counts.Ready, q.Name)
		}
	}
	if err == nil && bad == 0 {
		d.ok("dead letters", "there are none in %d queues", len(all))
	}
	return err
}

func (d *doctor) webhooks(ctx context.Context, c *rest.Client) error {
	bad, n := 0, 0
	err := c.Each(ctx, c.Path("subscriptions"), url.Values{"pushed": {"true"}}, "subscriptions", 0, func(one json.RawMessage) error {
		var s subscription
		if err := json.Unmarshal(one, &s); err != nil || s.Push == nil {
			return err
		}
		n++
		switch s.Push.State {
		case "failing":
			bad++
			d.warn("webhook "+s.Name, "polylog subscription attempts "+s.Name+" shows what its endpoint answers", "every request fails: %s", s.Push.LastError)
		case "refused":
			bad++
			d.fail("webhook "+s.Name, "give the user the right, or set the subscription as somebody who has it", "nothing is sent for its owner %s: %s", s.Owner, s.Push.Refused)
		case "disabled":
			bad++
			d.fail("webhook "+s.Name, "mend the endpoint, then: polylog subscription resume "+s.Name, "it is switched off: %s", s.Push.LastError)
		case "paused":
			bad++
			d.warn("webhook "+s.Name, "polylog subscription resume "+s.Name, "it is paused")
		}
		return nil
	})
	if err == nil && bad == 0 {
		d.ok("webhooks", "all %d are sent to", n)
	}
	return err
}

// hooks looks for those whose owner may not write any more.
func (d *doctor) hooks(ctx context.Context, c *rest.Client) error {
	bad, n := 0, 0
	err := c.Each(ctx, c.Path("hooks"), nil, "hooks", 0, func(one json.RawMessage) error {
		var h hook
		if err := json.Unmarshal(one, &h); err != nil {
			return err
		}
		if n++; h.Refused != "" {
			bad++
			d.fail("hook "+h.Name, "give the user the right, or set the hook as somebody who has it", "nothing is stored for its owner %s: %s", h.Owner, h.Refused)
		}
		return nil
	})
	if err == nil && bad == 0 {
		d.ok("hooks", "all %d store what comes", n)
	}
	return err
}
