package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"polylog/core"
	"polylog/router"
)

// refused is what a dialer says of an address where nobody listens.
var refused = core.E(core.Unavailable, "connection refused")

// says is a node's answer to an operation; silent ones answer nothing, for ever.
type says func(op string) (answer string, err error)

var errSilent = errors.New("silent")

// client is a Client of one node for each address, which answer as told. An answer nil
// stands for a node that cannot be reached.
func client(nodes map[string]says, addrs ...string) *Client {
	return &Client{Addrs: addrs, Open: func(ctx context.Context, addr string) (core.Stream, error) {
		answer := nodes[addr]
		if answer == nil {
			return nil, refused
		}
		return &oneAnswer{ctx: ctx, answer: answer}, nil
	}}
}

// oneAnswer is a stream that answers its one request.
type oneAnswer struct {
	core.Stream
	ctx    context.Context
	answer says
	op     string
}

func (s *oneAnswer) Send(msg []byte) error {
	_, op, _ := strings.Cut(string(msg), `"op":"`)
	s.op, _, _ = strings.Cut(op, `"`)
	return nil
}

func (s *oneAnswer) CloseSend() error { return nil }

func (s *oneAnswer) Recv() ([]byte, error) {
	answer, err := s.answer(s.op)
	if errors.Is(err, errSilent) {
		<-s.ctx.Done()
		return nil, core.E(core.Unavailable, "stream: %v", s.ctx.Err())
	}
	return []byte(answer), err
}

// each gives one answer after the other, the last for ever.
func each(errs ...error) says {
	return func(string) (string, error) {
		err := errs[0]
		errs = errs[min(1, len(errs)-1):]
		return "{}", err
	}
}

// What a node has said is told at the end, though later tries only ran out of time.
func TestReasonOutlivesTimeouts(t *testing.T) {
	for name, c := range map[string]struct {
		nodes map[string]says
		want  string
	}{
		"silence after a reason":   {map[string]says{"a": each(router.ErrNoLeader, errSilent)}, router.ErrNoLeader.Error()},
		"a reason after silence":   {map[string]says{"a": each(errSilent, router.ErrNoLeader)}, router.ErrNoLeader.Error()},
		"nobody at the last":       {map[string]says{"a": each(router.ErrNoLeader), "b": nil}, router.ErrNoLeader.Error()},
		"nobody, then a silence":   {map[string]says{"a": nil, "b": each(errSilent)}, refused.Error()},
		"nothing but silence":      {map[string]says{"a": each(errSilent), "b": each(errSilent)}, "deadline exceeded"},
		"the newer of two reasons": {map[string]says{"a": each(router.ErrNoLeader, core.E(core.Unavailable, "busy"))}, "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				_, err := client(c.nodes, "a", "b").Join(ctx, func() router.Candidate { return router.Candidate{} }, nil)
				if err == nil || !strings.HasPrefix(err.Error(), "cannot join the cluster at a,b: ") || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if ctx.Err() == nil {
					t.Error("it gave up before the time was over")
				}
			})
		})
	}
}

func TestRemoveTriesUntilThereIsALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, asked := time.Now(), 0
		c := client(map[string]says{"a": nil, "b": func(op string) (string, error) {
			if op == opRemove && time.Since(begin) > 5*time.Second {
				return "{}", nil
			}
			asked++
			return "{}", router.ErrNoLeader
		}}, "a", "b")
		if err := c.Remove(t.Context(), "n2"); err != nil || asked < 5 {
			t.Errorf("%v after %d tries", err, asked)
		}
	})
}

// A node that is gone was removed by a try whose answer was lost; of one that never was
// there the error says so.
func TestRemoveAfterALostAnswer(t *testing.T) {
	gone := core.E(core.NotFound, "no node n2 in this cluster")
	for _, c := range []struct {
		info string
		want error
	}{
		{`{"members":[{"id":"n2"}]}`, nil},
		{`{"members":[{"id":"n1"}]}`, gone},
	} {
		synctest.Test(t, func(t *testing.T) {
			remove := each(core.E(core.Uncertain, "outcome unknown"), gone)
			a := func(op string) (string, error) {
				if op == opInfo {
					return c.info, nil
				}
				return remove(op)
			}
			if err := client(map[string]says{"a": a}, "a").Remove(t.Context(), "n2"); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// Refusals are not asked for twice, nor is another node.
func TestRefusalIsFinal(t *testing.T) {
	asked := 0
	refuse := func(string) (string, error) {
		asked++
		return "", core.E(core.Conflict, "no majority")
	}
	err := client(map[string]says{"a": refuse, "b": refuse}, "a", "b").Drain(t.Context(), "n1", false)
	if core.KindOf(err) != core.Conflict || asked != 1 {
		t.Errorf("%v after %d requests", err, asked)
	}
}

func TestComparisonNamesWhoDiffers(t *testing.T) {
	c := Comparison{Index: 7, Digests: []Digest{{ID: "n1", SHA256: "aa"}, {ID: "n2", SHA256: "bb"}, {ID: "n3", SHA256: "aa"}, {ID: "n4", Error: "cut off"}}}
	got := strings.Join(c.problems(), "; ")
	if want := "node n4 could not be compared: cut off; the nodes' states differ after entry 7: n1,n3 against n2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	c.Digests[1].SHA256, c.Digests = "aa", c.Digests[:3]
	if got := c.problems(); len(got) != 0 {
		t.Errorf("equal states: %q", got)
	}
}

func TestProblemsOfMembers(t *testing.T) {
	now := time.Now()
	one, other := &Status{ID: "n1", Clock: now, SegmentBytes: 1 << 30}, &Status{ID: "n2", Clock: now, SegmentBytes: 1 << 30}
	h := Health{Nodes: []NodeHealth{{ID: "n1", Status: one}, {ID: "n2", Status: other}, {ID: "n3", Error: "down"}}}
	voter := Member{Voter: true}
	if got := append(h.segments(), h.Nodes[0].problems(&voter, now)...); len(got) != 0 {
		t.Errorf("without a problem: %q", got)
	}
	one.SegmentBytes, one.Mistaken = 1<<20, "node n2 of cluster X"
	got := strings.Join(append(h.segments(), h.Nodes[0].problems(&voter, now)...), "; ")
	for _, want := range []string{"segment-size is 1048576 bytes on node n1 and 1073741824 on node n2", "node n1 is taken by node n2 of cluster X for one of its own"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
