package state

import (
	"maps"

	"polylog/core"
	"polylog/core/wire"
)

// Sighting is what leaders have seen of a member. It is in the log, so that who asks any
// node for it learns the same, a member that was away about itself.
type Sighting struct {
	ID string
	// Held is an entry that is committed and that the member has told a leader it has, with
	// all before it. A member whose log ends before it has lost data: it must not vote.
	Held core.LogIndex
	// Away says that the leader has not reached the member for a while.
	Away bool
}

// NoteMembers says what the leader has seen. Held never falls; who is not registered is
// passed over.
type NoteMembers struct{ Sightings []Sighting }

// Command encodes: count uvarint; each: id, held uvarint, away byte.
func (c *NoteMembers) Command() core.Command {
	b := wire.AppendUvarint(nil, uint64(len(c.Sightings)))
	for _, s := range c.Sightings {
		b = s.append(b)
	}
	return core.Command{Code: CodeNoteMembers, Head: b}
}

func decodeNoteMembers(body []byte) (c NoteMembers, err error) {
	r := wire.NewReader(body)
	for range r.Count(3) {
		c.Sightings = append(c.Sightings, readSighting(&r))
	}
	return c, r.Close()
}

func (s *Sighting) append(dst []byte) []byte {
	dst = wire.AppendUvarint(wire.AppendString(dst, s.ID), uint64(s.Held))
	if s.Away {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func readSighting(r *wire.Reader) Sighting {
	return Sighting{ID: r.String(), Held: core.LogIndex(r.Uvarint()), Away: r.Byte() != 0}
}

func (s *State) noteMembers(tx txn, body []byte) core.Result {
	cmd, err := decodeNoteMembers(body)
	if err != nil {
		return invalid("note members", err)
	}
	all := maps.Clone(s.sightings)
	for _, now := range cmd.Sightings {
		if _, registered := s.members[now.ID]; !registered {
			continue
		}
		now.Held = max(now.Held, all[now.ID].Held)
		all[now.ID] = now
		tx.Set(sightingKey(now.ID), now.append([]byte{valueVersion}))
	}
	s.sightings, s.membersChanged = all, true
	return core.Result{}
}

// forgetSighting is for a member that is forgotten: who comes under its id has other data.
func (s *State) forgetSighting(tx txn, id string) {
	if _, ok := s.sightings[id]; ok {
		s.sightings = maps.Clone(s.sightings)
		delete(s.sightings, id)
		tx.Delete(sightingKey(id))
	}
}

func (s *State) loadSightings() error {
	prefix := []byte{prefixSighting}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(_, v []byte) bool {
		r := wire.NewReader(v)
		if bad = checkVersion(&r, "sighting"); bad != nil {
			return false
		}
		now := readSighting(&r)
		if err := r.Close(); err != nil {
			bad = core.E(core.Corrupt, "sighting of a member: %v", err)
			return false
		}
		s.sightings[now.ID] = now
		return true
	})
	if err != nil {
		return err
	}
	return bad
}

// Sightings are what leaders have seen of the members, by id, not to be changed.
func (s *State) Sightings() map[string]Sighting {
	s.view.RLock()
	defer s.view.RUnlock()
	return s.view.sightings
}
