package httpd

import (
	"time"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// sessionJSON is a session of MQTT in answers: of a client that is connected, to whichever node, or that
// the log keeps while its client is away.
type sessionJSON struct {
	ClientID  string `json:"clientId"`
	Namespace string `json:"namespace"`
	Connected bool   `json:"connected"`
	Node      string `json:"node,omitempty"` // that it is connected to
	User      string `json:"user,omitempty"`
	Stored    bool   `json:"stored"` // the log has something of it
	// ExpirySeconds is how long it goes on after its connection; left out where that is for ever.
	ExpirySeconds     *uint32    `json:"expirySeconds,omitempty"`
	Disconnected      *time.Time `json:"disconnected,omitempty"`
	Expires           *time.Time `json:"expires,omitempty"`
	SubscriptionCount int        `json:"subscriptionCount"` // that are stored
}

// sessionDetailJSON is what is said of one session.
type sessionDetailJSON struct {
	sessionJSON
	Subscriptions []sessionSubscriptionJSON `json:"subscriptions"`
}

// sessionSubscriptionJSON is a stored subscription.
type sessionSubscriptionJSON struct {
	Filter string      `json:"filter"`
	Share  string      `json:"share,omitempty"` // name of the group that shares it
	QoS    int         `json:"qos"`
	Counts *countsJSON `json:"counts,omitempty"` // of what waits for it, or for its group; of the first countedSubscriptions
}

// countedSubscriptions is of how many subscriptions it is told what waits: the leader is asked for each.
const countedSubscriptions = 100

func jsonOfSession(m *router.MQTTClient) sessionJSON {
	j := sessionJSON{ClientID: m.Name.Name, Namespace: m.Name.Namespace, Connected: m.Node != "", Node: m.Node, User: m.User}
	s := m.Session
	if s == nil {
		j.ExpirySeconds = new(uint32) // it ends with its connection
		return j
	}
	j.Stored, j.SubscriptionCount = true, s.Subscribed()
	if s.Expiry != router.MQTTNoExpiry {
		j.ExpirySeconds = &s.Expiry
	}
	if s.Disconnected > 0 && !j.Connected {
		at := front.Time(s.Disconnected)
		j.Disconnected = &at
		if j.ExpirySeconds != nil {
			ends := front.Time(s.Disconnected + 1000*int64(s.Expiry))
			j.Expires = &ends
		}
	}
	return j
}

// listSessions lists those that the caller may look at: all, or its own.
func listSessions(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "search", "connected"); err != nil {
		return err
	}
	connected, err := c.flag("connected")
	if err != nil {
		return err
	}
	either, found := !c.QueryArgs().Has("connected"), c.search()
	all, next, err := pageOf(c, c.router.MQTTClients, func(m *router.MQTTClient) (name string, wanted bool) {
		return m.Name.Name, (either || (m.Node != "") == connected) && found(m.Name.Name) && c.router.AuthorizeMQTTClient(c.principal, m) == nil
	})
	if err != nil {
		return err
	}
	answer := struct {
		Sessions []sessionJSON `json:"sessions"`
		Next     string        `json:"next,omitempty"`
	}{Sessions: []sessionJSON{}, Next: next}
	for _, m := range all {
		answer.Sessions = append(answer.Sessions, jsonOfSession(m))
	}
	return c.answer(200, answer)
}

func getSession(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	m, err := c.router.MQTTClient(c.ctx, c.principal, c.name("client"))
	if err != nil {
		return err
	}
	j := sessionDetailJSON{sessionJSON: jsonOfSession(m), Subscriptions: []sessionSubscriptionJSON{}}
	if m.Session != nil {
		for i := range m.Session.Subscriptions {
			u := &m.Session.Subscriptions[i]
			one := sessionSubscriptionJSON{Filter: u.Filter, Share: u.Share, QoS: int(u.Options & 3)}
			if u.Queue != 0 && i < countedSubscriptions {
				if one.Counts, err = c.countsOfGroup(u.Queue, u.Group); err != nil {
					return err
				}
			}
			j.Subscriptions = append(j.Subscriptions, one)
		}
	}
	return c.answer(200, j)
}

// countsOfGroup is what waits in a group of a queue; nil where that is gone by now.
func (c *call) countsOfGroup(q core.QueueID, group string) (*countsJSON, error) {
	n, err := c.router.CountQueue(c.ctx, q, group)
	if core.KindOf(err) == core.NotFound {
		return nil, nil
	}
	return &countsJSON{Ready: n.Ready, Unsettled: n.Unsettled, Delayed: n.Delayed, Consumers: n.Consumers}, err
}

// deleteSession ends a session, and its client's connection.
func deleteSession(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	if err := c.router.EndMQTTClient(c.ctx, c.principal, c.name("client")); err != nil {
		return err
	}
	return c.noContent()
}
