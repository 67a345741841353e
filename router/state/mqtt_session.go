package state

import (
	"cmp"
	"slices"
	"strconv"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// A session of MQTT (MQTT 5, section 4.1) is what outlives a client's connection: its
// subscriptions, the packet ids of QoS 2 that are under way, and its will. Its messages are in
// the queues of its filters (mqtt_filter.go). Nothing of a session is in memory.
//
// A session has a number, which what belongs to it hangs on. It is connected while a lease of
// the client id is noted in it; when that lease ends, however it does, the connection has ended,
// and from then on its expiry runs, and its will's delay.

// MQTTSession is a session.
type MQTTSession struct {
	Client core.Name // namespace and client id
	Number uint64
	Expiry uint32 // s after the connection's end; 0: with it; MQTTNoExpiry: never
	// Subscriptions, Received, Assigned and Released are filled by State.MQTTSession.
	Subscriptions []MQTTSubscription
	Received      []uint16       // QoS 2 packet ids of the client without their PUBREL, in order
	Assigned      []MQTTAssigned // what was sent and is not acknowledged, in the order of sending
	Released      []uint16       // packet ids for which PUBREL is owed, in order
	Disconnected  int64          // when the connection ended, ms; 0: it is connected
	User          string         // whose it is; empty: nobody's in particular

	token uint64 // of the lease that it is connected by; 0: it is not
	subs  int    // subscriptions
}

// MQTTNoExpiry is the expiry of a session that ends by command only.
const MQTTNoExpiry = 0xFFFFFFFF

// A session's value: version byte; number, expiry, token and subscriptions uvarint, disconnected
// varint, and the user where there is one.
func (m *MQTTSession) encode() []byte {
	b := []byte{valueVersion}
	for _, n := range [...]uint64{m.Number, uint64(m.Expiry), m.token, uint64(m.subs)} {
		b = wire.AppendUvarint(b, n)
	}
	return appendUser(wire.AppendVarint(b, m.Disconnected), m.User)
}

func decodeMQTTSession(client core.Name, v []byte) (*MQTTSession, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "mqtt session"); err != nil {
		return nil, err
	}
	m := &MQTTSession{
		Client: client, Number: r.Uvarint(), Expiry: readUint32(&r), token: r.Uvarint(), subs: int(readUint32(&r)), Disconnected: r.Varint(),
		User: readUser(&r),
	}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "mqtt session: %v", err)
	}
	return m, nil
}

// readUint32 reads a number; one that is too large becomes the largest.
func readUint32(r *wire.Reader) uint32 { return uint32(min(r.Uvarint(), 1<<32-1)) }

// group is the name of the session's group on queues of its own filters.
func (m *MQTTSession) group() string {
	return "mqtt:" + m.Client.Name + "@" + strconv.FormatUint(m.Number, 10)
}

// expired reports whether the session is over at a time, though nobody has ended it yet.
func (m *MQTTSession) expired(now int64) bool {
	return m.token == 0 && m.Expiry != MQTTNoExpiry && m.Disconnected+1000*int64(m.Expiry) <= now
}

// MQTTSubscription is a subscription of a session.
type MQTTSubscription struct {
	Filter  string // without $share/…/
	Share   string // name of the group that shares it; empty: it is the session's own
	Options byte   // of SUBSCRIBE (section 3.8.3.1)
	ID      uint32 // subscription identifier; 0: none
	// Queue has the filter's messages, for Group; 0: none, it is of QoS 0 and not shared.
	Queue core.QueueID
	Group string
}

// queued reports whether the subscription has a group on a queue.
func (u *MQTTSubscription) queued() bool { return u.Share != "" || u.Options&3 > 0 }

// A subscription's value: version byte, options byte, id uvarint, queue uvarint, group.
func (u *MQTTSubscription) encode() []byte {
	b := wire.AppendUvarint([]byte{valueVersion, u.Options}, uint64(u.ID))
	return wire.AppendString(wire.AppendUvarint(b, uint64(u.Queue)), u.Group)
}

func decodeMQTTSubscription(k, v []byte) (u MQTTSubscription, err error) {
	kr := wire.NewReader(k[10:])
	u.Share, u.Filter = kr.String(), string(kr.Rest())
	r := wire.NewReader(v)
	if err := checkVersion(&r, "mqtt subscription"); err != nil {
		return u, err
	}
	u.Options, u.ID, u.Queue, u.Group = r.Byte(), readUint32(&r), core.QueueID(r.Uvarint()), r.String()
	if err := cmp.Or(kr.Close(), r.Close()); err != nil {
		return u, core.E(core.Corrupt, "mqtt subscription: %v", err)
	}
	return u, nil
}

// readMQTTSession finds a session without what belongs to it; nil when there is none.
func readMQTTSession(r index.Reader, client core.Name) (*MQTTSession, error) {
	v, ok, err := r.Get(mqttSessionKey(client))
	if err != nil || !ok {
		return nil, err
	}
	return decodeMQTTSession(client, v)
}

// HasMQTTSession reports whether a client has a session, as of the last applied batch.
func (s *State) HasMQTTSession(client core.Name) (bool, error) {
	m, err := readMQTTSession(s.store, client)
	return m != nil, err
}

// KnowsMQTT reports whether there is anything of a client, as of the last applied batch: a
// session, or a will of one that has ended.
func (s *State) KnowsMQTT(client core.Name) (bool, error) {
	if has, err := s.HasMQTTSession(client); err != nil || has {
		return has, err
	}
	_, ok, err := s.store.Get(mqttWillKey(client))
	return ok, err
}

// MQTTSession finds a client's session with all that belongs to it, as of the last applied
// batch; nil when there is none.
func (s *State) MQTTSession(client core.Name) (*MQTTSession, error) {
	m, err := readMQTTSession(s.store, client)
	if err != nil || m == nil {
		return nil, err
	}
	return m, m.fill(s.store)
}

// fill reads what belongs to the session.
func (m *MQTTSession) fill(r index.Reader) error {
	var assigned []mqttAssignment
	for kind, take := range map[byte]func(k, v []byte) error{
		mqttSubscription: func(k, v []byte) error {
			u, err := decodeMQTTSubscription(k, v)
			m.Subscriptions = append(m.Subscriptions, u)
			return err
		},
		mqttReceived: func(k, _ []byte) error { m.Received = append(m.Received, packetOf(k)); return nil },
		mqttReleased: func(k, _ []byte) error { m.Released = append(m.Released, packetOf(k)); return nil },
		mqttAssigned: func(k, v []byte) error {
			a, err := decodeMQTTAssignment(k, v)
			assigned = append(assigned, a)
			return err
		},
	} {
		prefix := mqttNumberKey(kind, m.Number)
		var bad error
		err := r.Scan(prefix, after(prefix), func(k, v []byte) bool {
			bad = take(k, v)
			return bad == nil
		})
		if err = cmp.Or(err, bad); err != nil {
			return err
		}
	}
	slices.SortFunc(assigned, func(a, b mqttAssignment) int {
		return cmp.Or(cmp.Compare(a.entry, b.entry), cmp.Compare(a.place, b.place))
	})
	for i := range assigned {
		m.Assigned = append(m.Assigned, assigned[i].MQTTAssigned)
	}
	return nil
}

// MQTTLeased begins the commands of a connection: they count only while its lease is the
// client id's.
type MQTTLeased struct {
	Lease string // name of the client id's lease
	Token uint64
}

func (l *MQTTLeased) appendTo(b []byte) []byte {
	return wire.AppendUvarint(wire.AppendString(b, l.Lease), l.Token)
}

func readMQTTLeased(r *wire.Reader) MQTTLeased { return MQTTLeased{r.String(), r.Uvarint()} }

// leased is the client that a connection is of, and its user, or why it is not any more (Fenced).
func (s *State) leased(tx txn, l *MQTTLeased) (client core.Name, user string, refusal *core.Error) {
	client, ok := MQTTClientOf(l.Lease)
	if !ok {
		return client, "", core.E(core.Invalid, "%.80q is no lease of an mqtt client id", l.Lease)
	}
	is, err := readLease(tx, l.Lease)
	switch {
	case err != nil:
		return client, "", s.storeResult(err).Err
	case is == nil || is.Token != l.Token || s.sessions[is.Node].Number != is.Session:
		return client, "", core.E(core.Fenced, "mqtt client %.80q is somebody else's by now", client.Name)
	}
	return client, is.User, nil
}

// connected is the stored session of a connection, or why there is none: NotFound.
func (s *State) connected(tx txn, l *MQTTLeased) (*MQTTSession, *core.Error) {
	client, _, refusal := s.leased(tx, l)
	if refusal != nil {
		return nil, refusal
	}
	m, err := readMQTTSession(tx, client)
	switch {
	case err != nil:
		return nil, s.storeResult(err).Err
	case m == nil || m.token != l.Token:
		return nil, core.E(core.NotFound, "mqtt client %.80q has no stored session", client.Name)
	}
	return m, nil
}

func setMQTTSession(tx txn, m *MQTTSession) { tx.Set(mqttSessionKey(m.Client), m.encode()) }

// newMQTTSession is a session of a connection that begins.
func (s *State) newMQTTSession(tx txn, client core.Name, token uint64, expiry uint32) (*MQTTSession, *core.Error) {
	if err := s.inNamespace(client); err != nil {
		return nil, err
	}
	number, err := s.take(tx, counterMQTT, 1)
	if err != nil {
		return nil, s.storeResult(err).Err
	}
	return &MQTTSession{Client: client, Number: number, Expiry: expiry, token: token}, nil
}

// disconnect has the session go on without a connection, or ends it.
func (s *State) disconnect(tx txn, c *cursor, m *MQTTSession) error {
	if m.Expiry == 0 {
		return s.endMQTTSession(tx, c, m)
	}
	m.token, m.Disconnected = 0, c.time
	s.mqtt.away.Add(1)
	setMQTTSession(tx, m)
	if m.Expiry == MQTTNoExpiry {
		return nil
	}
	return s.setTimer(tx, timerMQTTSession, mqttTimerID(m.Number), c.time+1000*int64(m.Expiry), appendName(nil, m.Client))
}

// mqttLeaseGone is told that a lease has ended, of whatever it was: the connection of an MQTT
// client that it was for has ended without a word.
func (s *State) mqttLeaseGone(tx txn, c *cursor, name string, token uint64) error {
	client, ok := MQTTClientOf(name)
	if !ok {
		return nil
	}
	m, err := readMQTTSession(tx, client)
	if err != nil || m == nil || m.token != token {
		return err
	}
	if err := s.willDue(tx, c, m); err != nil {
		return err
	}
	return s.disconnect(tx, c, m)
}

// expireMQTTSession ends a session whose time is over. Its client may be there again.
func (s *State) expireMQTTSession(tx txn, c *cursor, id, value []byte) error {
	r := wire.NewReader(value)
	client := readName(&r)
	if err := r.Close(); err != nil {
		return core.E(core.Corrupt, "timer of mqtt session %x: %v", id, err)
	}
	m, err := readMQTTSession(tx, client)
	if err != nil || m == nil || string(mqttTimerID(m.Number)) != string(id) || !m.expired(c.time) {
		return err
	}
	return s.endMQTTSession(tx, c, m)
}

// sweptWithSession is how much of what belongs to a session goes with the command that ends it;
// the rest is left to Sweep.
const sweptWithSession = 64

// endMQTTSession ends a session (section 3.1.2.11.2). A will of it that waits is due at once
// (section 3.1.3.2.2).
func (s *State) endMQTTSession(tx txn, c *cursor, m *MQTTSession) error {
	if m.token == 0 {
		s.mqtt.away.Add(-1)
	}
	tx.Delete(mqttSessionKey(m.Client))
	if err := s.stopExpiry(tx, m); err != nil {
		return err
	}
	if err := s.hurryWill(tx, c, m.Client); err != nil {
		return err
	}
	_, done, err := s.sweepMQTTSession(tx, m.Number, m.Client.Namespace, sweptWithSession)
	if err != nil || done {
		return err
	}
	tx.Set(mqttNumberKey(mqttEnded, m.Number), []byte(m.Client.Namespace))
	s.mqtt.ended.Insert(m.Number)
	return nil
}

// sweepMQTTOf ends sessions of a deleted namespace, and says how much work it was. Their wills
// are not published any more.
func (s *State) sweepMQTTOf(tx txn, namespace string, limit int) (work int, err error) {
	prefix := mqttSessionPrefix(namespace)
	keys, err := scanKeys(tx, prefix, after(prefix), max(limit/subscriptionWork, 1))
	if err != nil {
		return 0, err
	}
	for _, k := range keys {
		m, err := readMQTTSession(tx, core.Name{Namespace: namespace, Name: string(k[len(prefix):])})
		if err != nil {
			return 0, err
		}
		if err := s.forgetWill(tx, m.Client); err != nil {
			return 0, err
		}
		if err := s.endMQTTSession(tx, &cursor{}, m); err != nil {
			return 0, err
		}
	}
	return len(keys) * subscriptionWork, nil
}

// sweepMQTT goes on with the first session that has ended. It returns the work that is left to
// do in this command.
func (s *State) sweepMQTT(tx txn, work int) (int, error) {
	number, _ := s.mqtt.ended.Min()
	key := mqttNumberKey(mqttEnded, number)
	namespace, _, err := tx.Get(key)
	if err != nil {
		return 0, err
	}
	n, done, err := s.sweepMQTTSession(tx, number, string(namespace), work)
	if err != nil {
		return 0, err
	}
	if done {
		tx.Delete(key)
		s.mqtt.ended.Delete(number)
	}
	return work - max(n, 1), nil
}

// subscriptionWork is how much work the end of a subscription is, in keys.
const subscriptionWork = 8

// sweepMQTTSession removes what belongs to a session that has ended, about limit keys of it.
func (s *State) sweepMQTTSession(tx txn, number uint64, namespace string, limit int) (work int, done bool, err error) {
	for _, kind := range ofSession {
		prefix := mqttNumberKey(kind, number)
		type pair struct{ k, v []byte }
		var pairs []pair
		left := limit - work
		err := tx.Scan(prefix, after(prefix), func(k, v []byte) bool {
			if left <= 0 {
				return false
			}
			pairs = append(pairs, pair{append([]byte(nil), k...), append([]byte(nil), v...)})
			if left--; kind == mqttSubscription {
				left -= subscriptionWork - 1
			}
			return true
		})
		if err != nil {
			return work, false, err
		}
		for _, p := range pairs {
			switch kind {
			case mqttSubscription:
				u, err := decodeMQTTSubscription(p.k, p.v)
				if err != nil {
					return work, false, err
				}
				if err := s.leaveFilter(tx, namespace, &u); err != nil {
					return work, false, err
				}
				work += subscriptionWork - 1
			case mqttAssigned:
				if err := unassign(tx, p.k, p.v); err != nil {
					return work, false, err
				}
			}
			tx.Delete(p.k)
			work++
		}
		if left <= 0 {
			return work, false, nil
		}
	}
	return work, true, nil
}
