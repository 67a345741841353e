package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"polylog/core"
)

// leaseCommand has the commands about sessions and leases:
//
//	open NODE RUN
//	end NODE SESSION
//	acquire NODE SESSION CLAIM NAME [takeover] [user=NAME]
//	release NODE SESSION CLAIM NAME
//	sweep-leases WORK
func (s *script) leaseCommand() (core.Command, func(core.Result) string) {
	word := func(n int) string { return s.d.CmdArgs[n].Key }
	number := func(n int) uint64 { return uint64(s.number(word(n))) }
	show := func(what string) func(core.Result) string {
		return func(r core.Result) string {
			n, err := DecodeNumber(r.Body)
			s.must(err)
			return fmt.Sprintf(" %s %d", what, n)
		}
	}
	switch s.d.Cmd {
	case "open":
		c := OpenSession{Node: word(0), Run: word(1)}
		return c.Command(), show("session")
	case "end":
		c := EndSession{Node: word(0), Session: number(1)}
		return c.Command(), nil
	case "acquire":
		c := AcquireLease{Node: word(0), Session: number(1), Claim: number(2), Name: word(3)}
		_, c.Takeover = s.option("takeover")
		if user, ok := s.option("user"); ok {
			f := AcquireLeaseFor{c, user}
			return f.Command(), show("token")
		}
		return c.Command(), show("token")
	case "release":
		c := ReleaseLease{Node: word(0), Session: number(1), Claim: number(2), Name: word(3)}
		return c.Command(), nil
	case "sweep-leases":
		c := SweepLeases{Work: int(number(0))}
		return c.Command(), nil
	}
	return s.groupCommand()
}

// dumpLeases has the sessions, every lease, and what is left to sweep.
func (m *machine) dumpLeases(b *strings.Builder) {
	sessions := m.state.Sessions()
	for _, node := range slices.Sorted(maps.Keys(sessions)) {
		fmt.Fprintf(b, "session %d of %s run=%s\n", sessions[node].Number, node, sessions[node].Run)
	}
	m.must(m.store.Scan([]byte{prefixLease}, []byte{prefixLease + 1}, func(k, v []byte) bool {
		rest := string(k[2:])
		switch k[1] {
		case leaseByName:
			l, err := decodeLease(v)
			m.must(err)
			fmt.Fprintf(b, "lease %s of %s session=%d claim=%d token=%d", rest, l.Node, l.Session, l.Claim, l.Token)
			if l.User != "" {
				b.WriteString(" user=" + l.User)
			}
			if sessions[l.Node].Number != l.Session {
				b.WriteString(" ended")
			}
			b.WriteByte('\n')
		case leaseEnded:
			fmt.Fprintf(b, "session %d is to be swept from %q on\n", be(k[2:]), v[1:])
		case leaseBySession:
			fmt.Fprintf(b, "  session %d has %s\n", be(k[2:10]), rest[8:])
		}
		return true
	}))
}

// randomLeaseCommand is any command about a few nodes' leases, mostly of current sessions.
func randomLeaseCommand(rnd *rand.Rand, s *State) core.Command {
	node := string(rune('g' + rnd.IntN(3)))
	name := string(rune('x' + rnd.IntN(3)))
	session, claim := s.sessions[node].Number, uint64(1+rnd.IntN(3))
	if rnd.IntN(8) == 0 {
		session = uint64(rnd.IntN(20))
	}
	switch n := rnd.IntN(100); {
	case n < 25:
		c := OpenSession{node, fmt.Sprint(rnd.IntN(3))}
		return c.Command()
	case n < 65:
		c := AcquireLease{node, session, claim, name, rnd.IntN(2) == 0}
		return c.Command()
	case n < 80:
		c := ReleaseLease{node, session, claim, name}
		return c.Command()
	case n < 85:
		c := EndSession{node, session}
		return c.Command()
	}
	c := SweepLeases{1 + rnd.IntN(2)}
	return c.Command()
}
