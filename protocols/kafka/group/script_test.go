package group

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// script drives a Coordinator by the commands of testdata/*: time passes by the tick
// command alone, ids are numbered, and every answer is printed when it is given.
type script struct {
	t   *testing.T
	c   *Coordinator
	now time.Time
	ids int
	out strings.Builder

	topics fakeTopics
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{t: t, now: time.Unix(1_000_000, 0)}
		s.reset(Config{})
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(d)
			checkInvariants(t, s.c)
			if s.out.Len() == 0 {
				return "ok"
			}
			return s.out.String()
		})
	})
}

func (s *script) reset(cfg Config) {
	cfg.NewID = func() string { s.ids++; return strconv.Itoa(s.ids) }
	s.c = New(cfg)
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *script) run(d *datadriven.TestData) {
	a := args{s.t, d}
	switch d.Cmd {
	case "config":
		s.reset(Config{
			InitialDelay: a.duration("delay", 0), MaxSize: a.int("size", 0),
			MaxMemberBytes: a.int("member-bytes", 0), MaxBytes: int64(a.int("bytes", 0)),
		})
	case "join":
		s.join(a)
	case "sync":
		s.sync(a)
	case "heartbeat":
		s.printf("%v", codeName(s.c.Heartbeat(s.now, a.str("g", "g"), a.str("m", ""), a.str("instance", ""), int32(a.int("gen", 0)))))
	case "commit":
		s.printf("%v", codeName(s.c.CheckCommit(s.now, a.str("g", "g"), a.str("m", ""), a.str("instance", ""), int32(a.int("gen", -1)), parts(a.str("of", "")))))
	case "leave":
		s.leave(a)
	case "tick":
		s.tick(a.duration("d", 0))
	case "describe":
		s.describe(a.str("g", "g"))
	case "delete":
		known, code := s.c.CheckDelete(a.str("g", "g"))
		s.printf("known=%v %v", known, codeName(code))
	case "delete-offsets":
		known, subscribed, code := s.c.CheckDeleteOffsets(a.str("g", "g"))
		s.printf("known=%v %v", known, codeName(code))
		if code == None {
			s.printf("subscribed=%v", subscribed(a.str("topic", "t")))
		}
	case "topics":
		s.topics = fakeTopics{}
		for _, arg := range d.CmdArgs {
			s.topics[arg.Key] = int32(a.int(arg.Key, 0))
		}
	case "beat":
		s.beat(a)
	case "fetch":
		s.printf("%v", codeName(s.c.CheckFetch("g", a.str("m", ""), int32(a.int("epoch", -1)))))
	case "reset":
		s.c.Reset(NotCoordinator)
	default:
		s.t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
}

// join's reply is printed under the name that as gives it, or the member's id.
func (s *script) join(a args) {
	client := a.str("as", a.str("m", "client"))
	protocols := strings.Split(a.str("protocols", "range"), ",")
	j := Join{
		Group: a.str("g", "g"), Member: a.str("m", ""), Instance: a.str("instance", ""),
		ClientID: "c", ClientHost: "/h", ProtocolType: a.str("type", "consumer"),
		Session: a.duration("session", 10*time.Second), Rebalance: a.duration("rebalance", time.Minute),
		NeedsID: a.int("v", 9) >= 4, CanSkip: a.int("v", 9) >= 9,
	}
	for _, p := range protocols {
		name, topics, _ := strings.Cut(p, ":")
		if name != "" {
			j.Protocols = append(j.Protocols, Protocol{Name: name, Metadata: subscription(topics)})
		}
	}
	if a.str("metadata", "") != "" {
		j.Protocols[0].Metadata = []byte(a.str("metadata", ""))
	}
	s.c.Join(s.now, j, func(r Joined) {
		if r.Code != None {
			s.printf("%s joined: %s id=%q", client, codeName(r.Code), r.Member)
			return
		}
		var ms []string
		for _, m := range r.Members {
			ms = append(ms, m.Member)
		}
		s.printf("%s joined: id=%s gen=%d protocol=%s leader=%s skip=%v members=%v",
			client, r.Member, r.Generation, r.Protocol, r.Leader, r.Skip, ms)
	})
}

func (s *script) sync(a args) {
	member := a.str("m", "")
	r := Sync{Group: a.str("g", "g"), Member: member, Instance: a.str("instance", ""), Generation: int32(a.int("gen", 0))}
	if p := a.str("protocol", ""); p != "" {
		r.Protocol = &p
	}
	if p := a.str("type", ""); p != "" {
		r.ProtocolType = &p
	}
	for l := range strings.Lines(a.d.Input) {
		if m, data, ok := strings.Cut(strings.TrimSpace(l), "="); ok {
			r.Assignments = append(r.Assignments, Assignment{Member: m, Data: []byte(data)})
		}
	}
	s.c.Sync(s.now, r, func(r Synced) {
		if r.Code != None {
			s.printf("%s synced: %s", member, codeName(r.Code))
			return
		}
		s.printf("%s synced: protocol=%s assignment=%q", member, r.Protocol, r.Assignment)
	})
}

func (s *script) leave(a args) {
	var who []Leaver
	for m := range strings.SplitSeq(a.str("m", ""), ",") {
		who = append(who, Leaver{Member: m, Instance: a.str("instance", "")})
	}
	var names []string
	for _, c := range s.c.Leave(s.now, a.str("g", "g"), who) {
		names = append(names, codeName(c))
	}
	s.printf("left: %s", strings.Join(names, " "))
}

// tick lets time pass from deadline to deadline, as a real clock would.
func (s *script) tick(d time.Duration) {
	start := s.now
	end := s.now.Add(d)
	for {
		next, ok := s.c.Next()
		if !ok || next.After(end) {
			break
		}
		s.now = next
		before := s.out.Len()
		s.c.Tick(s.now)
		if s.out.Len() > before {
			text := s.out.String()
			s.out.Reset()
			s.out.WriteString(text[:before])
			s.printf("after %v:", s.now.Sub(start))
			s.out.WriteString(text[before:])
		}
	}
	s.now = end
	s.c.Tick(end)
}

func (s *script) describe(id string) {
	if d, ok := s.c.DescribeConsumers(id); ok {
		s.printf("%s epoch=%d assignor=%s", d.State, d.Epoch, d.Assignor)
		for _, m := range d.Members {
			s.printf("  %s instance=%q epoch=%d assigned=%s target=%s", m.ID, m.Instance, m.Epoch, show(m.Assigned), show(m.Target))
		}
		return
	}
	d, ok := s.c.Describe(id)
	if !ok {
		s.printf("not in memory")
		return
	}
	s.printf("%s type=%q protocol=%q", d.State, d.ProtocolType, d.Protocol)
	for _, m := range d.Members {
		s.printf("  %s instance=%q assignment=%q", m.ID, m.Instance, m.Assignment)
	}
}

// args reads a command's arguments, with defaults.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) str(key, def string) string {
	i := slices.IndexFunc(a.d.CmdArgs, func(c datadriven.CmdArg) bool { return c.Key == key })
	if i < 0 {
		return def
	}
	return strings.Join(a.d.CmdArgs[i].Vals, ",")
}

func (a args) int(key string, def int) int {
	v := a.str(key, "")
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		a.t.Fatalf("%s: %s: %v", a.d.Pos, key, err)
	}
	return n
}

func (a args) duration(key string, def time.Duration) time.Duration {
	v := a.str(key, "")
	if v == "" {
		return def
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		a.t.Fatalf("%s: %s: %v", a.d.Pos, key, err)
	}
	return d
}

func codeName(c Code) string {
	names := map[Code]string{
		None: "none", MessageTooLarge: "message-too-large", CoordinatorUnavailable: "coordinator-unavailable",
		NotCoordinator: "not-coordinator", IllegalGeneration: "illegal-generation",
		InconsistentProtocol: "inconsistent-protocol", InvalidGroupID: "invalid-group-id",
		UnknownMemberID: "unknown-member", InvalidSessionTimeout: "invalid-session-timeout",
		RebalanceInProgress: "rebalance-in-progress", NonEmptyGroup: "non-empty-group",
		GroupIDNotFound: "group-not-found", MemberIDRequired: "member-id-required",
		GroupMaxSizeReached: "group-max-size", FencedInstanceID: "fenced-instance",
		InvalidRequest: "invalid-request", FencedMemberEpoch: "fenced-epoch", StaleMemberEpoch: "stale-epoch",
		UnreleasedInstanceID: "unreleased-instance", UnsupportedAssignor: "unsupported-assignor", InvalidRegex: "invalid-regex",
	}
	return fmt.Sprintf("%s(%d)", names[c], c)
}
