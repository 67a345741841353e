package dispatch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"polylog/core"
	"polylog/core/ackset"
)

// TestScripts runs testdata/*.txt. After each command the deliveries that follow are
// printed, and marks that are wanted are committed at once, unless "hold" was given.
//
//	start [end=N] [mark=N] [failed=O] [single] [limit=N]
//	attach ID [prefetch=N] [credit=N] [priority=N] [lease=MS] [exclusive]
//	grow N | grant ID N | cancel ID | detach ID [counts]
//	done|release|fail|reject OFFSET [due=MS]    of the delivery made last
//	decided OFFSET [again] | tick MS | purge | hold | commit
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{serials: map[core.Offset]uint64{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d, s.b = t, d, new(strings.Builder)
			s.run()
			s.deliver()
			return s.b.String()
		})
	})
}

type script struct {
	t       *testing.T
	d       *datadriven.TestData
	b       *strings.Builder
	g       *Group
	now     int64
	serial  uint64
	serials map[core.Offset]uint64
	hold    bool
}

func (s *script) option(name string) (n int64, ok bool) {
	if !s.d.HasArg(name) {
		return 0, false
	}
	for _, a := range s.d.CmdArgs {
		if a.Key == name && len(a.Vals) == 1 {
			s.d.ScanArgs(s.t, name, &n)
		}
	}
	return n, true
}

func (s *script) number(i int) (n int64) {
	if _, err := fmt.Sscan(s.d.CmdArgs[i].Key, &n); err != nil {
		s.t.Fatalf("%s: %v", s.d.Pos, err)
	}
	return n
}

func (s *script) run() {
	n := func(name string) int64 { v, _ := s.option(name); return v }
	has := func(name string) bool { _, ok := s.option(name); return ok }
	switch s.d.Cmd {
	case "start":
		start := Start{
			Settled: new(ackset.Set), End: core.Offset(n("end")), Mark: core.Offset(n("mark")),
			SingleActive: has("single"), Limits: NoLimits,
		}
		start.Failures = int(n("limit"))
		if has("failed") {
			start.Failed = []Failed{{Offset: core.Offset(n("failed"))}}
		}
		s.g, s.hold = New(start), false
	case "attach":
		c := Consumer{
			ID: ConsumerID(s.number(0)), Prefetch: int(n("prefetch")), Priority: int(n("priority")), Lease: n("lease"),
			Credit: Unlimited, Exclusive: has("exclusive"),
		}
		if has("credit") {
			c.Credit = n("credit")
		}
		if err := s.g.Attach(c); err != nil {
			fmt.Fprintln(s.b, err)
		}
	case "grow":
		s.g.Grow(core.Offset(s.number(0)))
	case "grant":
		s.g.Grant(ConsumerID(s.number(0)), s.number(1))
	case "cancel":
		s.g.Cancel(ConsumerID(s.number(0)))
	case "detach":
		s.failed(s.g.Detach(ConsumerID(s.number(0)), has("counts"), nil))
	case "done", "release", "fail", "reject":
		outcome := map[string]Outcome{"done": Done, "release": Release, "fail": Fail, "reject": Reject}[s.d.Cmd]
		o := core.Offset(s.number(0))
		verdict := s.g.Settle(o, s.serials[o], outcome, n("due"))
		fmt.Fprintln(s.b, [...]string{"propose", "await", "handled", "stale"}[verdict])
	case "claim":
		o := core.Offset(s.number(0))
		fmt.Fprintln(s.b, s.g.Claim(o, s.serials[o], n("until")))
	case "impose":
		s.g.Impose(core.Offset(s.number(0)), true)
	case "decided":
		s.g.Decided(core.Offset(s.number(0)), has("again"))
	case "tick":
		s.now = s.number(0)
		s.failed(s.g.Tick(s.now, nil))
	case "purge":
		fmt.Fprintln(s.b, "settle", s.g.Purge(nil))
	case "hold":
		s.hold = true
	case "commit":
		s.hold = false
		s.g.Marked(s.g.wanted)
	case "leave":
		mark, need := s.g.Leave()
		fmt.Fprintln(s.b, "idle", s.g.Idle(), "mark", mark, need)
	default:
		s.t.Fatalf("%s: %s", s.d.Pos, s.d.Cmd)
	}
}

func (s *script) failed(fs []Failure) {
	for _, f := range fs {
		fmt.Fprintf(s.b, "%d failed, await %v\n", f.Offset, f.Await)
	}
}

func (s *script) deliver() {
	for again := true; again; {
		again = false
		if mark, ok := s.g.WantMark(); ok {
			fmt.Fprintln(s.b, "wants mark", mark)
			if !s.hold {
				s.g.Marked(mark)
			}
		}
		for {
			s.serial++
			d, ok := s.g.Next(s.now, s.serial)
			if !ok {
				break
			}
			again = true
			s.serials[d.Offset] = d.Serial
			fmt.Fprintf(s.b, "%d to %d", d.Offset, d.Consumer)
			if d.Redelivered {
				s.b.WriteString(", redelivered")
			}
			if d.Attempts > 0 {
				fmt.Fprintf(s.b, ", failed %d times", d.Attempts)
			}
			s.b.WriteByte('\n')
		}
	}
	if at, ok := s.g.Due(); ok {
		fmt.Fprintln(s.b, "next tick at", at)
	}
}
