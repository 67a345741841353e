package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/vfs"
)

// FuzzAssembler cuts records, and whatever else, into messages: they come out whole, and
// memory is taken for no more than what came.
func FuzzAssembler(f *testing.F) {
	c := command("body")
	f.Add(core.AppendCommand(core.AppendCommand(nil, &c), &c), uint8(3))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 1}, uint8(1))
	f.Add(appendAnswer(nil, 7, core.Result{Offset: -1, Start: 5, Body: []byte("b")}, nil), uint8(4))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		collect := func(size int) (all [][]byte, err error) {
			a := assembler{limit: 1 << 20}
			for rest := slices.Clone(b); len(rest) > 0 && err == nil; {
				k := min(len(rest), max(size, 1))
				err = a.add(slices.Clone(rest[:k]), func(r []byte) bool {
					all = append(all, bytes.Clone(r))
					return true
				})
				rest = rest[k:]
				if cap(a.part) > 4*len(b)+64 {
					t.Fatalf("%d bytes taken for %d", cap(a.part), len(b))
				}
			}
			return all, err
		}
		whole, err := collect(len(b))
		cut, err2 := collect(int(size))
		if !slices.EqualFunc(whole, cut, bytes.Equal) || (err == nil) != (err2 == nil) {
			t.Fatalf("%q, %v; cut: %q, %v", whole, err, cut, err2)
		}
		for _, r := range whole {
			o, err := decodeAnswer(r)
			if err != nil {
				continue
			}
			again, err := decodeAnswer(appendAnswer(nil, o.applied, o.result, o.err)[lengthLen:])
			if err != nil || again.applied != o.applied || core.KindOf(again.err) != core.KindOf(o.err) ||
				again.result.String() != o.result.String() || !bytes.Equal(again.result.Body, o.result.Body) {
				t.Fatalf("%+v, again %+v, %v", o, again, err)
			}
		}
	})
}

// leaderPlayed is a node whose leader the test plays: what is proposed goes to script, one
// stream after the other.
func leaderPlayed(t *testing.T, script func(core.Stream) error) *Node {
	t.Helper()
	h := newHarness(t, vfs.NewMem())
	b := newScripted(t, "b")
	b.agree()
	h.seed(string(b.tr.LocalAddr()))
	h.options.ElectionTimeout = 1 << 40 // b leads for as long as the test takes
	b.network.Handle(proposeService, func(_ string, s core.Stream) error { return script(s) })
	n := h.open()
	b.to = n.transport.LocalAddr()
	resp := b.append(raft.AppendEntriesRequest{Term: 2})
	if m, ok := n.Leader(); !resp.Success || !ok || m.ID != "b" {
		t.Fatalf("leader %v, %v", m, ok)
	}
	return n
}

// take receives commands until their bodies have come.
func take(t *testing.T, s core.Stream, bodies ...string) {
	t.Helper()
	in := assembler{limit: core.MaxCommandLen}
	var got []string
	for len(got) < len(bodies) {
		msg, err := s.Recv()
		if err != nil {
			t.Errorf("commands %q, then %v", got, err)
			return
		}
		must(t, in.add(msg, func(r []byte) bool {
			got = append(got, string(commandOf(r).Payload))
			return true
		}))
	}
	if !slices.Equal(got, bodies) {
		t.Errorf("commands %q, want %q", got, bodies)
	}
}

func answer(t *testing.T, s core.Stream, err error) {
	t.Helper()
	must(t, s.Send(appendAnswer(nil, 0, core.Result{}, err)))
}

// What becomes of commands, by how the stream to the leader ends.
func TestForwardingOutcomes(t *testing.T) {
	refused := core.E(core.NotLeader, "no more")
	broken := errors.New("broken")
	uncertain := func(t *testing.T, s core.Stream) error {
		must(t, s.Send(nil))
		take(t, s, "1", "2", "3")
		answer(t, s, core.E(core.Uncertain, "leadership lost"))
		return nil
	}
	for name, c := range map[string]struct {
		streams []func(t *testing.T, s core.Stream) error
		want    string // outcomes of the commands 1, 2 and 3
	}{
		"never ready": {[]func(*testing.T, core.Stream) error{
			func(*testing.T, core.Stream) error { return refused },
			serveAll("1", "2", "3"),
		}, "ok ok ok"},
		"ends well with nothing done": {[]func(*testing.T, core.Stream) error{
			func(t *testing.T, s core.Stream) error { must(t, s.Send(nil)); take(t, s, "1", "2", "3"); return nil },
			serveAll("1", "2", "3"),
		}, "ok ok ok"},
		"ends well in the middle": {[]func(*testing.T, core.Stream) error{
			func(t *testing.T, s core.Stream) error {
				must(t, s.Send(nil))
				take(t, s, "1", "2", "3")
				answer(t, s, nil)
				answer(t, s, refused)
				return nil
			},
			serveAll("2", "3"),
		}, "ok ok ok"},
		"refused, and a later one done": {[]func(*testing.T, core.Stream) error{
			func(t *testing.T, s core.Stream) error {
				must(t, s.Send(nil))
				take(t, s, "1", "2", "3")
				answer(t, s, refused)
				answer(t, s, nil)
				return nil
			},
			serveAll("3"),
		}, "not the leader, ok ok"},
		"breaks": {[]func(*testing.T, core.Stream) error{
			func(t *testing.T, s core.Stream) error {
				must(t, s.Send(nil))
				take(t, s, "1", "2", "3")
				answer(t, s, nil)
				return broken
			},
			serveAll("4"),
		}, "ok outcome unknown outcome unknown"},
		"breaks after a refusal": {[]func(*testing.T, core.Stream) error{
			func(t *testing.T, s core.Stream) error {
				must(t, s.Send(nil))
				take(t, s, "1", "2", "3")
				answer(t, s, refused)
				return broken
			},
			serveAll("4"),
		}, "not the leader outcome unknown outcome unknown"},
		"answers that are none": {[]func(*testing.T, core.Stream) error{
			func(t *testing.T, s core.Stream) error {
				must(t, s.Send(nil))
				take(t, s, "1", "2", "3")
				must(t, s.Send([]byte{0, 0, 0, 1, 9}))
				<-s.Context().Done()
				return nil
			},
			serveAll("4"),
		}, "outcome unknown outcome unknown outcome unknown"},
		"more answers than commands": {[]func(*testing.T, core.Stream) error{
			func(t *testing.T, s core.Stream) error {
				must(t, s.Send(nil))
				take(t, s, "1", "2", "3")
				for range 4 {
					answer(t, s, nil)
				}
				<-s.Context().Done()
				return nil
			},
			serveAll("4"),
		}, "ok ok ok"},
		"uncertain, and nothing more taken": {[]func(*testing.T, core.Stream) error{uncertain, serveAll("2", "3")}, "outcome unknown, ok ok"},
		"uncertain, in a sequence":          {[]func(*testing.T, core.Stream) error{uncertain, serveAll("4")}, "outcome unknown, unavailable unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			next, hold, over := 0, make(chan struct{}), make(chan struct{}, len(c.streams))
			n := leaderPlayed(t, func(s core.Stream) error {
				<-hold
				if next >= len(c.streams) {
					return refused
				}
				next++
				defer func() { over <- struct{}{} }()
				return c.streams[next-1](t, s)
			})
			outcomes := make(chan string, 4)
			var seq *core.Sequence
			if strings.HasSuffix(name, "in a sequence") {
				seq = new(core.Sequence)
			}
			for _, body := range []string{"1", "2", "3"} {
				cmd := command(body)
				cmd.Sequence = seq
				n.ProposeAsync(cmd, func(_ core.Result, err error) { outcomes <- core.KindOf(err).Error() })
			}
			close(hold)
			got := []string{<-outcomes, <-outcomes, <-outcomes}
			if strings.Join(got, " ") != strings.ReplaceAll(c.want, ",", "") {
				t.Errorf("outcomes %q, want %q", got, c.want)
			}
			tooMany := name == "more answers than commands"
			if tooMany {
				<-over // what is proposed before would be taken for the one with the answer too many
			}
			if tooMany || !strings.HasSuffix(c.want, "ok") {
				_, err := n.Propose(t.Context(), command("4")) // it goes on
				must(t, err)
			}
		})
	}
}

// serveAll does the commands, and more that come.
func serveAll(bodies ...string) func(*testing.T, core.Stream) error {
	return func(t *testing.T, s core.Stream) error {
		must(t, s.Send(nil))
		take(t, s, bodies...)
		for range bodies {
			answer(t, s, nil)
		}
		_, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
}

// The serving side answers in order, also where a command is refused at once while others
// are still on their way through raft; after it nothing more is taken.
func TestRefusalComesLast(t *testing.T) {
	a := &answers{machine: &fastMachine{}, wake: make(chan struct{}, 1)}
	a.cond = sync.NewCond(&a.mu)
	for range 2 {
		if !a.expect() {
			t.Fatal("a command is not taken")
		}
	}
	a.refuse(core.E(core.Closed, "no more"))
	if a.expect() {
		t.Fatal("a command is taken after a refusal")
	}
	near, serve := core.NewStreamPipe(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serve(a.write)
	}()
	a.add(core.Result{Offset: 1}, nil) // raft is done with the first
	var got []core.Kind
	in := assembler{limit: core.MaxCommandLen}
	for {
		msg, err := near.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		must(t, in.add(msg, func(r []byte) bool {
			o, err := decodeAnswer(r)
			must(t, err)
			got = append(got, core.KindOf(o.err))
			return true
		}))
	}
	<-ended
	if !slices.Equal(got, []core.Kind{core.OK, core.Closed}) {
		t.Fatalf("answers %v", got)
	}
}

// A forwarded command that must not be in the log is answered, in its place, and never
// gets there.
func TestForwardedCommandsAreAdmitted(t *testing.T) {
	h := newHarness(t, vfs.NewMem())
	h.options.Admit = func(c core.Code) error {
		if c != 1 {
			return core.E(core.Unsupported, "code %d", c)
		}
		return nil
	}
	n := h.lead()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := n.OpenStream(ctx, n.o.NodeID, proposeService)
	must(t, err)
	_, err = s.Recv() // it takes commands
	must(t, err)
	sound, unknown := command("sound"), command("unknown")
	unknown.Code = 30
	must(t, s.Send(core.AppendCommand(core.AppendCommand(core.AppendCommand(nil, &sound), &unknown), &sound)))
	var got []core.Kind
	in := assembler{limit: core.MaxCommandLen}
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		must(t, in.add(msg, func(r []byte) bool {
			o, err := decodeAnswer(r)
			must(t, err)
			got = append(got, core.KindOf(o.err))
			return true
		}))
	}
	if !slices.Equal(got, []core.Kind{core.OK, core.Unsupported}) { // what came after it is sent again
		t.Errorf("answers %v", got)
	}
	if bodies := h.machine.bodies(); !slices.Equal(bodies, []string{"sound"}) {
		t.Errorf("the log has %q", bodies)
	}
}
