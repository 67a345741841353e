package state

import (
	"bytes"
	"cmp"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Who looks at MQTT's clients from outside, and ends one: an administrator, or the client's user.

// MQTTClient is a client id that somebody is connected with, or that has a stored session, or both.
type MQTTClient struct {
	Name    core.Name
	Session *MQTTSession // the stored one; nil: there is none
	Node    string       // that the client is connected to; empty: to none
	User    string       // whose it is; empty: nobody's in particular
}

// Subscribed is how many subscriptions the session has, whether they are filled in or not.
func (m *MQTTSession) Subscribed() int { return m.subs }

// MQTTClient finds a client, with all that belongs to its session, as of the last applied batch; nil
// where there is nothing of it.
func (s *State) MQTTClient(name core.Name) (*MQTTClient, error) {
	c := &MQTTClient{Name: name}
	l, err := s.Lease(MQTTLease(name))
	if err != nil {
		return nil, err
	}
	if l != nil {
		c.Node, c.User = l.Node, l.User
	}
	if c.Session, err = s.MQTTSession(name); err != nil || l == nil && c.Session == nil {
		return nil, err
	}
	if c.Session != nil {
		c.User = cmp.Or(c.User, c.Session.User)
	}
	return c, nil
}

// MQTTClients are up to limit clients of a namespace, by client id, after from, without what belongs
// to their sessions.
func (s *State) MQTTClients(namespace, from string, limit int) (all []*MQTTClient, err error) {
	connected, err := s.connectedMQTT(namespace, from, limit)
	if err != nil {
		return nil, err
	}
	stored, err := s.storedMQTT(namespace, from, limit)
	if err != nil {
		return nil, err
	}
	for len(all) < limit && len(connected)+len(stored) > 0 {
		var c *MQTTClient
		if len(stored) == 0 || len(connected) > 0 && connected[0].Name.Name <= stored[0].Client.Name {
			c, connected = connected[0], connected[1:]
		} else {
			c = &MQTTClient{Name: stored[0].Client, User: stored[0].User}
		}
		if len(stored) > 0 && stored[0].Client == c.Name {
			c.Session, stored = stored[0], stored[1:]
		}
		all = append(all, c)
	}
	return all, nil
}

// connectedMQTT are those of MQTTClients that somebody is connected with.
func (s *State) connectedMQTT(namespace, from string, limit int) (all []*MQTTClient, err error) {
	prefix := leaseKey(MQTTLease(core.Name{Namespace: namespace}))
	sessions := s.Sessions()
	err = scanFrom(s.store, prefix, from, func(client string, v []byte) (more bool, err error) {
		l, err := decodeLease(v)
		if err == nil && sessions[l.Node].Number == l.Session {
			all = append(all, &MQTTClient{Name: core.Name{Namespace: namespace, Name: client}, Node: l.Node, User: l.User})
		}
		return len(all) < limit, err
	})
	return all, err
}

// storedMQTT are the stored sessions of MQTTClients.
func (s *State) storedMQTT(namespace, from string, limit int) (all []*MQTTSession, err error) {
	err = scanFrom(s.store, mqttSessionPrefix(namespace), from, func(client string, v []byte) (more bool, err error) {
		m, err := decodeMQTTSession(core.Name{Namespace: namespace, Name: client}, v)
		all = append(all, m)
		return len(all) < limit, err
	})
	return all, err
}

// scanFrom calls take with what is below a prefix after from, until it says that it wants no more.
func scanFrom(r index.Reader, prefix []byte, from string, take func(name string, v []byte) (more bool, err error)) error {
	start := prefix
	if from != "" {
		start = append(bytes.Clone(prefix), from+"\x00"...)
	}
	var bad error
	err := r.Scan(start, after(prefix), func(k, v []byte) (more bool) {
		more, bad = take(string(k[len(prefix):]), v)
		return more && bad == nil
	})
	return cmp.Or(err, bad)
}

// EndMQTT ends a client's session, and its connection, wherever that is. A will is published, as when
// a connection ends without a word and its session with it (section 3.1.2.5). Where there is neither it
// is NotFound, and Denied where User is set and the client is not that user's.
type EndMQTT struct {
	Client core.Name
	User   string // empty: whosever it is
}

// Command encodes: client, user.
func (c *EndMQTT) Command() core.Command {
	return core.Command{Code: CodeEndMQTT, Head: wire.AppendString(appendName(nil, c.Client), c.User)}
}

func decodeEndMQTT(body []byte) (c EndMQTT, err error) {
	r := wire.NewReader(body)
	c = EndMQTT{readName(&r), r.String()}
	return c, r.Close()
}

func (s *State) endMQTT(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeEndMQTT(body)
	if err != nil {
		return invalid("end mqtt session", err)
	}
	name := MQTTLease(cmd.Client)
	l, err := readLease(tx, name)
	if err != nil {
		return s.storeResult(err)
	}
	m, err := readMQTTSession(tx, cmd.Client)
	if err != nil {
		return s.storeResult(err)
	}
	connected := l != nil && s.sessions[l.Node].Number == l.Session
	owner := ""
	if connected {
		owner = l.User
	}
	if m != nil {
		owner = cmp.Or(owner, m.User)
	}
	switch {
	case !connected && m == nil:
		return refused(core.NotFound, "mqtt client %.80q is not connected and has no session", cmd.Client.Name)
	case cmd.User != "" && cmd.User != owner:
		return refused(core.Denied, "mqtt client %.80q is not user %.80q's", cmd.Client.Name, cmd.User)
	}
	if l != nil {
		if connected {
			s.leaseEvents = append(s.leaseEvents, LeaseEvent{Node: l.Node, Session: l.Session, Claim: l.Claim, Name: name, Lost: true, Ended: true})
		}
		if e := s.leaseGone(tx, c, name, l.Token); e != nil {
			return core.Result{Err: e}
		}
		tx.Delete(leaseKey(name))
		tx.Delete(sessionLeaseKey(l.Session, name))
	}
	if m, err = readMQTTSession(tx, cmd.Client); err == nil && m != nil {
		err = s.endMQTTSession(tx, c, m)
	}
	if err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}
