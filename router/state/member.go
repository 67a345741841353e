package state

import (
	"maps"
	"slices"

	"polylog/core"
	"polylog/core/wire"
)

// The registry of members is what the nodes of the cluster tell of themselves. Raft's
// configuration says who votes; the registry says whose data an id belongs to, where
// clients reach a node, and which features its program knows.

// Member is a node as it announced itself.
type Member struct {
	ID        string
	Instance  string            // names the data directory: a new one for each that is made
	Addr      string            // for other nodes, host:port
	Endpoints map[string]string // for clients: listener → host:port
	Version   string            // of its program
	MaxLevel  int               // the highest feature level that its program knows
}

// Limits of what a node may tell of itself.
const (
	maxMembers     = 128
	maxEndpoints   = 32
	maxMemberBytes = 4096 // of all its texts together
)

// Announce registers a node, or what has changed of it. It is refused where the id belongs
// to another instance (Conflict), or where the node's program does not know the cluster's
// feature level (Unsupported).
type Announce struct{ Member }

// Command encodes: the member as in the KV space.
func (c *Announce) Command() core.Command {
	return core.Command{Code: CodeAnnounce, Head: c.append(nil)}
}

func decodeAnnounce(body []byte) (c Announce, err error) {
	r := wire.NewReader(body)
	c.Member = readMember(&r)
	return c, r.Close()
}

// ForgetMember takes a node out of the registry, and ends its session.
type ForgetMember struct{ ID string }

// Command encodes: id.
func (c *ForgetMember) Command() core.Command {
	return core.Command{Code: CodeForgetMember, Head: wire.AppendString(nil, c.ID)}
}

func decodeForgetMember(body []byte) (c ForgetMember, err error) {
	r := wire.NewReader(body)
	c.ID = r.String()
	return c, r.Close()
}

// append encodes: id, instance, addr, version, max level uvarint, count uvarint; each
// endpoint, in the order of the names: name, addr.
func (m *Member) append(dst []byte) []byte {
	for _, s := range []string{m.ID, m.Instance, m.Addr, m.Version} {
		dst = wire.AppendString(dst, s)
	}
	dst = wire.AppendUvarint(dst, uint64(m.MaxLevel))
	dst = wire.AppendUvarint(dst, uint64(len(m.Endpoints)))
	for _, name := range slices.Sorted(maps.Keys(m.Endpoints)) {
		dst = wire.AppendString(dst, name)
		dst = wire.AppendString(dst, m.Endpoints[name])
	}
	return dst
}

func readMember(r *wire.Reader) Member {
	m := Member{ID: r.String(), Instance: r.String(), Addr: r.String(), Version: r.String(), MaxLevel: readLevel(r)}
	n := r.Count(2)
	m.Endpoints = make(map[string]string, n)
	for range n {
		name := r.String()
		m.Endpoints[name] = r.String()
	}
	return m
}

func (m *Member) encode() []byte { return m.append([]byte{valueVersion}) }

func decodeMember(v []byte) (Member, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "member"); err != nil {
		return Member{}, err
	}
	m := readMember(&r)
	if err := r.Close(); err != nil {
		return Member{}, core.E(core.Corrupt, "member: %v", err)
	}
	return m, nil
}

// check refuses what no node says of itself.
func (m *Member) check() *core.Error {
	size := len(m.ID) + len(m.Instance) + len(m.Addr) + len(m.Version)
	for name, addr := range m.Endpoints {
		size += len(name) + len(addr)
	}
	switch {
	case m.ID == "" || m.Instance == "":
		return core.E(core.Invalid, "announce: a node without id or instance")
	case len(m.Endpoints) > maxEndpoints || size > maxMemberBytes:
		return core.E(core.TooLarge, "announce: node %.40q tells %d endpoints and %d bytes, at most %d and %d are kept", m.ID, len(m.Endpoints), size, maxEndpoints, maxMemberBytes)
	}
	return nil
}

// Equal reports whether both say the same.
func (m *Member) Equal(o *Member) bool {
	return m.ID == o.ID && m.Instance == o.Instance && m.Addr == o.Addr && m.Version == o.Version &&
		m.MaxLevel == o.MaxLevel && maps.Equal(m.Endpoints, o.Endpoints)
}

func (s *State) announce(tx txn, body []byte) core.Result {
	cmd, err := decodeAnnounce(body)
	if err != nil {
		return invalid("announce", err)
	}
	if e := cmd.check(); e != nil {
		return core.Result{Err: e}
	}
	if cmd.MaxLevel < s.level {
		return refused(core.Unsupported, "node %s runs polylog %s, which knows feature level %d; the cluster is at %d: start a newer version", cmd.ID, cmd.Version, cmd.MaxLevel, s.level)
	}
	switch was, ok := s.members[cmd.ID]; {
	case ok && was.Instance != cmd.Instance:
		return refused(core.Conflict, "node %s is a member with other data (instance %s, not %s)", cmd.ID, was.Instance, cmd.Instance)
	case !ok && len(s.members) >= maxMembers:
		return refused(core.Limit, "%d members are registered", len(s.members))
	}
	s.setMembers(func(all map[string]Member) { all[cmd.ID] = cmd.Member })
	tx.Set(memberKey(cmd.ID), cmd.encode())
	return core.Result{}
}

func (s *State) forgetMember(tx txn, body []byte) core.Result {
	cmd, err := decodeForgetMember(body)
	if err != nil {
		return invalid("forget member", err)
	}
	if _, ok := s.members[cmd.ID]; !ok {
		return refused(core.NotFound, "node %s is not registered", cmd.ID)
	}
	s.setMembers(func(all map[string]Member) { delete(all, cmd.ID) })
	tx.Delete(memberKey(cmd.ID))
	s.forgetSighting(tx, cmd.ID)
	s.endSession(tx, cmd.ID)
	return core.Result{}
}

// setMembers replaces the registry by a changed copy: readers keep the one they have.
func (s *State) setMembers(change func(map[string]Member)) {
	all := maps.Clone(s.members)
	change(all)
	s.members, s.membersChanged = all, true
}

func (s *State) loadMembers() error {
	prefix := []byte{prefixMember}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(_, v []byte) bool {
		var m Member
		if m, bad = decodeMember(v); bad != nil {
			return false
		}
		s.members[m.ID] = m
		return true
	})
	if err != nil {
		return err
	}
	return bad
}

// Members is the registry by id, not to be changed.
func (s *State) Members() map[string]Member {
	s.view.RLock()
	defer s.view.RUnlock()
	return s.view.members
}
