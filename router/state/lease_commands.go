package state

import (
	"polylog/core"
	"polylog/core/wire"
)

// OpenSession gives a run of a node its session: the one that it has, or a new one, with
// which the node's earlier session ends.
type OpenSession struct{ Node, Run string }

// Command encodes: node, run.
func (c *OpenSession) Command() core.Command {
	return core.Command{Code: CodeOpenSession, Head: wire.AppendString(wire.AppendString(nil, c.Node), c.Run)}
}

func decodeOpenSession(body []byte) (c OpenSession, err error) {
	r := wire.NewReader(body)
	c = OpenSession{r.String(), r.String()}
	return c, r.Close()
}

// DecodeNumber reads the body of the result of OpenSession, the session's number, and of
// AcquireLease, the token: uvarint.
func DecodeNumber(body []byte) (uint64, error) {
	r := wire.NewReader(body)
	n := r.Uvarint()
	return n, r.Close()
}

func (s *State) openSession(tx txn, body []byte) core.Result {
	cmd, err := decodeOpenSession(body)
	switch {
	case err != nil:
		return invalid("open session", err)
	case cmd.Node == "" || cmd.Run == "":
		return refused(core.Invalid, "open session: without node or run")
	case len(cmd.Node) > maxLeaseText || len(cmd.Run) > maxLeaseText:
		return refused(core.TooLarge, "open session: node and run have at most %d bytes", maxLeaseText)
	}
	old, ok := s.sessions[cmd.Node]
	switch {
	case ok && old.Run == cmd.Run:
		return core.Result{Body: wire.AppendUvarint(nil, old.Number)}
	case !ok && len(s.sessions) >= maxSessions:
		return refused(core.Limit, "%d nodes have sessions", len(s.sessions))
	}
	number, err := s.take(tx, counterLeases, 1)
	if err != nil {
		return s.storeResult(err)
	}
	s.endSession(tx, cmd.Node)
	is := Session{number, cmd.Run}
	s.setSessions(func(all map[string]Session) { all[cmd.Node] = is })
	tx.Set(sessionKey(cmd.Node), is.encode())
	s.leaseEvents = append(s.leaseEvents, LeaseEvent{Node: cmd.Node, Session: number})
	return core.Result{Body: wire.AppendUvarint(nil, number)}
}

// EndSession ends a session; one that is over already is NotFound.
type EndSession struct {
	Node    string
	Session uint64
}

// Command encodes: node, session uvarint.
func (c *EndSession) Command() core.Command {
	return core.Command{Code: CodeEndSession, Head: wire.AppendUvarint(wire.AppendString(nil, c.Node), c.Session)}
}

func decodeEndSession(body []byte) (c EndSession, err error) {
	r := wire.NewReader(body)
	c = EndSession{r.String(), r.Uvarint()}
	return c, r.Close()
}

func (s *State) endSessionCommand(tx txn, body []byte) core.Result {
	cmd, err := decodeEndSession(body)
	if err != nil {
		return invalid("end session", err)
	}
	if is, ok := s.sessions[cmd.Node]; !ok || is.Number != cmd.Session {
		return refused(core.NotFound, "session %d of node %.40q is over", cmd.Session, cmd.Node)
	}
	s.endSession(tx, cmd.Node)
	return core.Result{}
}

// AcquireLease makes a session the owner of a name. It is refused where the session is over
// (Fenced), and where there is another owner (Conflict) unless Takeover is set: that one has
// lost it then. Repeated with the same claim it changes nothing.
type AcquireLease struct {
	Node     string
	Session  uint64
	Claim    uint64 // not 0
	Name     string
	Takeover bool
}

// Command encodes: node, session and claim uvarint, name, takeover byte.
func (c *AcquireLease) Command() core.Command {
	b := appendClaim(nil, c.Node, c.Session, c.Claim, c.Name)
	return core.Command{Code: CodeAcquireLease, Head: wire.AppendBool(b, c.Takeover)}
}

func appendClaim(b []byte, node string, session, claim uint64, name string) []byte {
	b = wire.AppendUvarint(wire.AppendString(b, node), session)
	return wire.AppendString(wire.AppendUvarint(b, claim), name)
}

func decodeAcquireLease(body []byte) (c AcquireLease, err error) {
	r := wire.NewReader(body)
	c = AcquireLease{r.String(), r.Uvarint(), r.Uvarint(), r.String(), r.Bool()}
	return c, r.Close()
}

// AcquireLeaseFor is AcquireLease for a user. It is refused (Denied) where the name is another user's who
// is still there, by a lease or by a stored session of MQTT.
type AcquireLeaseFor struct {
	AcquireLease
	User string
}

// Command encodes: as AcquireLease, and the user.
func (c *AcquireLeaseFor) Command() core.Command {
	cmd := c.AcquireLease.Command()
	return core.Command{Code: CodeAcquireLeaseFor, Head: wire.AppendString(cmd.Head, c.User)}
}

func decodeAcquireLeaseFor(body []byte) (c AcquireLeaseFor, err error) {
	r := wire.NewReader(body)
	c = AcquireLeaseFor{AcquireLease{r.String(), r.Uvarint(), r.Uvarint(), r.String(), r.Bool()}, r.String()}
	return c, r.Close()
}

func (s *State) acquireLeaseFor(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeAcquireLeaseFor(body)
	if err != nil {
		return invalid("acquire lease", err)
	}
	return s.giveLease(tx, c, &cmd)
}

func (s *State) acquireLease(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeAcquireLease(body)
	if err != nil {
		return invalid("acquire lease", err)
	}
	return s.giveLease(tx, c, &AcquireLeaseFor{AcquireLease: cmd})
}

// anothers refuses a name that is another user's. old is its lease, nil where nobody has it.
func (s *State) anothers(tx txn, name string, old *Lease, user string) *core.Error {
	users := make([]string, 0, 2)
	if old != nil && s.sessions[old.Node].Number == old.Session {
		users = append(users, old.User)
	}
	if client, ok := MQTTClientOf(name); ok {
		m, err := readMQTTSession(tx, client)
		if err != nil {
			return s.storeResult(err).Err
		}
		if m != nil {
			users = append(users, m.User)
		}
	}
	for _, u := range users {
		if u != "" && u != user && s.users.all[u] != nil {
			return core.E(core.Denied, "%.80q is another user's", name)
		}
	}
	return nil
}

func (s *State) giveLease(tx txn, c *cursor, cmd *AcquireLeaseFor) core.Result {
	switch {
	case cmd.Name == "" || cmd.Claim == 0:
		return refused(core.Invalid, "acquire lease: without name or claim")
	case len(cmd.Name) > maxLeaseText || len(cmd.User) > maxLeaseText:
		return refused(core.TooLarge, "acquire lease: a name of %d bytes, at most %d are allowed", max(len(cmd.Name), len(cmd.User)), maxLeaseText)
	}
	if is, ok := s.sessions[cmd.Node]; !ok || is.Number != cmd.Session {
		return refused(core.Fenced, "session %d of node %.40q is over", cmd.Session, cmd.Node)
	}
	old, err := readLease(tx, cmd.Name)
	if err != nil {
		return s.storeResult(err)
	}
	if refusal := s.anothers(tx, cmd.Name, old, cmd.User); refusal != nil {
		return core.Result{Err: refusal}
	}
	if old != nil {
		switch valid := s.sessions[old.Node].Number == old.Session; {
		case old.Session == cmd.Session && old.Claim == cmd.Claim:
			return core.Result{Body: wire.AppendUvarint(nil, old.Token)}
		case valid && !cmd.Takeover:
			return refused(core.Conflict, "%.80q is owned by node %s", cmd.Name, old.Node)
		case valid:
			s.leaseEvents = append(s.leaseEvents, LeaseEvent{Node: old.Node, Session: old.Session, Claim: old.Claim, Name: cmd.Name, Lost: true})
		}
		if e := s.leaseGone(tx, c, cmd.Name, old.Token); e != nil {
			return core.Result{Err: e}
		}
		tx.Delete(sessionLeaseKey(old.Session, cmd.Name))
	}
	token, err := s.take(tx, counterLeases, 1)
	if err != nil {
		return s.storeResult(err)
	}
	is := Lease{cmd.Node, cmd.Session, cmd.Claim, token, cmd.User}
	tx.Set(leaseKey(cmd.Name), is.encode())
	tx.Set(sessionLeaseKey(cmd.Session, cmd.Name), nil)
	s.leaseEvents = append(s.leaseEvents, LeaseEvent{Node: cmd.Node, Session: cmd.Session, Claim: cmd.Claim, Name: cmd.Name})
	return core.Result{Body: wire.AppendUvarint(nil, token)}
}

// ReleaseLease has the owner give a name up; NotFound where it is not the owner any more.
type ReleaseLease struct {
	Node           string
	Session, Claim uint64
	Name           string
}

// Command encodes: node, session and claim uvarint, name.
func (c *ReleaseLease) Command() core.Command {
	return core.Command{Code: CodeReleaseLease, Head: appendClaim(nil, c.Node, c.Session, c.Claim, c.Name)}
}

func decodeReleaseLease(body []byte) (c ReleaseLease, err error) {
	r := wire.NewReader(body)
	c = ReleaseLease{r.String(), r.Uvarint(), r.Uvarint(), r.String()}
	return c, r.Close()
}

func (s *State) releaseLease(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeReleaseLease(body)
	if err != nil {
		return invalid("release lease", err)
	}
	old, err := readLease(tx, cmd.Name)
	if err != nil {
		return s.storeResult(err)
	}
	if old == nil || old.Node != cmd.Node || old.Session != cmd.Session || old.Claim != cmd.Claim {
		return refused(core.NotFound, "node %.40q does not own %.80q by this lease", cmd.Node, cmd.Name)
	}
	if e := s.leaseGone(tx, c, cmd.Name, old.Token); e != nil {
		return core.Result{Err: e}
	}
	tx.Delete(leaseKey(cmd.Name))
	tx.Delete(sessionLeaseKey(old.Session, cmd.Name))
	return core.Result{}
}

// SweepLeases removes up to Work leases that ended with their session.
type SweepLeases struct{ Work int }

// Command encodes: work uvarint.
func (c *SweepLeases) Command() core.Command {
	return core.Command{Code: CodeSweepLeases, Head: wire.AppendUvarint(nil, uint64(c.Work))}
}

func decodeSweepLeases(body []byte) (c SweepLeases, err error) {
	r := wire.NewReader(body)
	c.Work = int(min(r.Uvarint(), maxSweep+1))
	return c, r.Close()
}

func (s *State) sweepLeases(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeSweepLeases(body)
	if err != nil {
		return invalid("sweep leases", err)
	}
	if cmd.Work < 1 || cmd.Work > maxSweep {
		return refused(core.Invalid, "sweep leases: work of %d, want 1 to %d", cmd.Work, maxSweep)
	}
	if err := s.sweepEnded(tx, c, cmd.Work); err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}
