package group

import (
	"bytes"
	"slices"
	"time"
)

// About what each costs besides its strings and metadata, in bytes.
const (
	groupOverhead    = 1024
	memberOverhead   = 512
	protocolOverhead = 64
)

// member is a member of a group, or an id whose owner has yet to join with it.
type member struct {
	id           string
	instance     string // empty: dynamic
	clientID     string
	clientHost   string
	session      time.Duration
	rebalance    time.Duration
	protocolType string
	protocols    []Protocol // distinct names, in order of preference
	assignment   []byte

	join func(Joined) // answers the parked JoinGroup, if any
	sync func(Synced) // answers the parked SyncGroup, if any

	isNew    bool  // its first JoinGroup is parked: it may expire although it waits
	owesSync bool  // it has the generation but has not asked for its assignment
	timer    timer // end of its session
}

// size is what the member is charged of Config.MaxBytes.
func (m *member) size() int64 {
	n := memberOverhead + 2*len(m.id) + len(m.instance) + len(m.clientID) + len(m.clientHost) + len(m.assignment)
	return int64(n + protocolsLen(m.protocols))
}

func protocolsLen(ps []Protocol) (n int) {
	for _, p := range ps {
		n += protocolOverhead + len(p.Name) + len(p.Metadata)
	}
	return n
}

// waits reports whether the member is kept waiting by us: that is no lack of life.
func (m *member) waits() bool { return m.join != nil || m.sync != nil }

// metadata is what the member said with a protocol.
func (m *member) metadata(protocol string) []byte {
	i := slices.IndexFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
	if i < 0 {
		return nil
	}
	return m.protocols[i].Metadata
}

// matches reports whether the member would say the same again.
func (m *member) matches(ps []Protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// distinct is ps without protocols named again, which would vote twice.
func distinct(ps []Protocol) []Protocol {
	seen := make(map[string]struct{}, len(ps))
	out := make([]Protocol, 0, len(ps))
	for _, p := range ps {
		if _, again := seen[p.Name]; !again {
			seen[p.Name] = struct{}{}
			out = append(out, p)
		}
	}
	return out
}
