package cluster

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A leader is fresh for as long as the slowest of the fastest majority has answered lately: calls
// that were sent, not answers that came, and none of those who know of a newer term.
func TestHeardByMajority(t *testing.T) {
	var begin time.Time
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	servers := func(nonvoters int, ids ...raft.ServerID) (all []raft.Server) {
		for i, id := range ids {
			s := raft.Server{ID: id}
			if i >= len(ids)-nonvoters {
				s.Suffrage = raft.Nonvoter
			}
			all = append(all, s)
		}
		return all
	}
	c := contacts{all: map[raft.ServerID]contact{}}
	c.heard("b", at(5), 1, 10)
	c.heard("c", at(3), 1, 10)
	c.heard("d", at(9), 1, 10)
	for name, tc := range map[string]struct {
		servers []raft.Server
		want    time.Time
		needed  bool
	}{
		"alone":                    {servers(0, "a"), begin, false},
		"alone with a non-voter":   {servers(1, "a", "d"), begin, false},
		"two":                      {servers(0, "a", "c"), at(3), true},
		"three":                    {servers(0, "a", "b", "c"), at(5), true},
		"three, one never heard":   {servers(0, "a", "x", "c"), at(3), true},
		"a non-voter counts not":   {servers(1, "a", "b", "c", "d"), at(5), true},
		"five, two never heard":    {servers(0, "a", "b", "c", "x", "y"), at(3), true},
		"five, three never heard":  {servers(0, "a", "b", "x", "y", "z"), begin, true},
		"two, the other never was": {servers(0, "a", "x"), begin, true},
	} {
		if got, needed := c.byMajority(tc.servers, "a"); !got.Equal(tc.want) || needed != tc.needed {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, needed, tc.want, tc.needed)
		}
	}
}

// How far a member holds the log is known by the answers of one term only.
func TestContactOfTerm(t *testing.T) {
	c := contacts{all: map[raft.ServerID]contact{}}
	now := time.Now()
	c.heard("b", now, 2, 20)
	c.heard("b", now, 2, 10) // a heartbeat that came late
	if k := c.of("b"); k.matched != 20 || k.term != 2 {
		t.Errorf("%+v", k)
	}
	c.heard("b", now, 1, 30) // of an earlier leadership
	if k := c.of("b"); k.matched != 20 {
		t.Errorf("%+v", k)
	}
	c.heard("b", now, 3, 5)
	if k := c.of("b"); k.matched != 5 || k.term != 3 {
		t.Errorf("%+v", k)
	}
	c.forget("b")
	if k := c.of("b"); k != (contact{}) {
		t.Errorf("%+v", k)
	}
}
