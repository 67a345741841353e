package admin

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
	"polylog/router/state"
)

// members is a network of which only what other members say is of interest: either the
// connection to one fails, or it answers.
type members struct {
	Network
	dial  error
	says  says
	asked int // guarded by Check, which asks the only one
}

func (m *members) OpenStream(ctx context.Context, _, _ string) (core.Stream, error) {
	m.asked++
	if m.dial != nil {
		return nil, m.dial
	}
	return &oneAnswer{ctx: ctx, answer: m.says}, nil
}

// Only what the leader says ends a node. That somebody at a member's address refuses the
// connection does not: while a node replays the log of a restored cluster, that names the
// members of the old one, whose nodes may still run.
func TestOnlyAnAnswerExpels(t *testing.T) {
	foreign := core.E(core.Conflict, `node "r2" belongs to cluster "new", node "n1" to cluster "old"`)
	for name, c := range map[string]struct {
		members
		want core.Kind
	}{
		"a node of another cluster": {members{dial: foreign}, core.OK},
		"nobody":                    {members{dial: refused}, core.OK},
		"admitted":                  {members{says: each(nil)}, core.OK},
		"removed":                   {members{says: each(errRemoved("r2"))}, core.Conflict},
	} {
		_, log := routertest.Start(t, nil)
		r, _ := routertest.Join(t, log, "r2", nil)
		s := &Server{o: Options{Router: r, Network: &c.members, Self: func() router.Candidate {
			return router.Candidate{Member: state.Member{ID: "r2"}, Clock: time.Unix(0, 0)}
		}}}
		if err := s.Check(t.Context()); core.KindOf(err) != c.want || c.asked == 0 {
			t.Errorf("%s: %v, asked %d", name, err, c.asked)
		}
	}
}

// late is a network where a node is reached at the third try.
type late struct {
	members
	err error
}

func (l *late) OpenStreamTo(ctx context.Context, id, _, service string) (core.Stream, error) {
	if l.asked == 2 {
		l.dial = l.err
	}
	return l.OpenStream(ctx, id, service)
}

// That nobody listened at a joining node's address a moment ago is no reason to refuse it.
func TestJoinerIsReachedAfterAPause(t *testing.T) {
	for _, last := range []error{nil, refused} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{o: Options{Network: &late{members{dial: refused, says: each(nil)}, last}}}
			if _, err := s.reach(t.Context(), "n3", "host:1"); core.KindOf(err) != core.KindOf(last) {
				t.Errorf("%v, want %v", err, last)
			}
		})
	}
}
