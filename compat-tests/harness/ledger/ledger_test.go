package ledger

import (
	"strings"
	"testing"
)

var part = Partition{"t", 0}

// sent is a ledger where producer 1 has sent n records to the partition, and 2 one to another.
func sent(n int64) *Ledger {
	l := New()
	for i := range n {
		l.Sent(part, NewID(1, i))
	}
	l.Sent(Partition{"t", 1}, NewID(2, 0))
	return l
}

// wants says which broken promise the ledger must have found; "" is none.
func wants(t *testing.T, l *Ledger, want string) {
	t.Helper()
	n, wrong := l.Wrong()
	switch {
	case want == "" && n != 0:
		t.Errorf("a good history: %v", wrong)
	case want != "" && (n == 0 || !strings.Contains(wrong[0], want)):
		t.Errorf("found %d: %v; want %q", n, wrong, want)
	}
}

// Each bad history must be found: a checker that cannot fail is worth nothing.
func TestWalkFinds(t *testing.T) {
	type record struct {
		offset int64
		id     ID
	}
	at := func(offset, seq int64) record { return record{offset, NewID(1, seq)} }
	for name, c := range map[string]struct {
		acked, read []record
		repeats     bool
		want        string
	}{
		"good":                     {acked: []record{at(0, 0), at(1, 1)}, read: []record{at(0, 0), at(1, 1)}},
		"written, never told":      {acked: []record{at(0, 0)}, read: []record{at(0, 0), at(1, 1)}},
		"never written nor told":   {acked: []record{at(0, 0), at(1, 2)}, read: []record{at(0, 0), at(1, 2)}},
		"lost at the end":          {acked: []record{at(0, 0), at(1, 1)}, read: []record{at(0, 0)}, want: "t-0 ends at 1: records up to 1"},
		"lost in between":          {acked: []record{at(0, 0), at(1, 1)}, read: []record{at(1, 1)}, want: "offset 1 where 0 follows"},
		"lost all":                 {acked: []record{at(0, 0)}, want: "ends at 0"},
		"another in its place":     {acked: []record{at(0, 0)}, read: []record{at(0, 1)}, want: "offset 0 of t-0 is record 1/1; it was 1/0"},
		"acked at two places":      {acked: []record{at(0, 0), at(1, 0)}, read: []record{at(0, 0), at(1, 0)}, want: "there twice"},
		"twice":                    {read: []record{at(0, 0), at(1, 0)}, want: "there twice"},
		"twice, others in between": {read: []record{at(0, 0), at(1, 1), at(2, 0)}, want: "there twice"},
		"twice by retries":         {read: []record{at(0, 0), at(1, 0)}, repeats: true},
		"out of order":             {read: []record{at(0, 1), at(1, 0)}, want: "out of order"},
		"phantom":                  {read: []record{at(0, 7)}, want: "nobody sent"},
		"phantom producer":         {read: []record{{0, NewID(9, 0)}}, want: "nobody sent"},
		"of another partition":     {read: []record{{0, NewID(2, 0)}}, want: "nobody sent"},
		"a hole":                   {read: []record{at(0, 0), at(2, 1)}, want: "offset 2 where 1 follows"},
		"an offset twice":          {read: []record{at(0, 0), at(0, 0)}, want: "offset 0 where 1 follows"},
		"an offset of its own":     {acked: []record{at(1<<40, 0)}, want: "at offset 1099511627776"},
	} {
		t.Run(name, func(t *testing.T) {
			l := sent(3)
			for _, r := range c.acked {
				l.Note(part, r.offset, r.id, Ack, "producer")
			}
			least := l.Ends()[part]
			w := l.Walk(part, 0, !c.repeats, "reader")
			for _, r := range c.read {
				w.Record(r.offset, Value(r.id, 10))
			}
			w.End(least)
			wants(t, l, c.want)
		})
	}
}

func TestWalkFindsChangedValue(t *testing.T) {
	for bit := range 8 * (head + 4) {
		l := sent(1)
		v := Value(NewID(1, 0), 4)
		v[bit/8] ^= 1 << (bit % 8)
		l.Walk(part, 0, true, "reader").Record(0, v)
		wants(t, l, "checksum is wrong")
	}
	l := sent(1)
	l.Walk(part, 0, true, "reader").Record(0, make([]byte, 3))
	wants(t, l, "a value of 3 bytes")
}

// Two replicas that say different things are found however little each says.
func TestReadersMustAgree(t *testing.T) {
	l := sent(3)
	l.Walk(part, 0, true, "n1").Record(0, Value(NewID(1, 0), 4))
	l.Walk(part, 0, true, "n2").Record(0, Value(NewID(1, 1), 4))
	wants(t, l, "n2: offset 0 of t-0 is record 1/1; it was 1/0")
}

func TestCounts(t *testing.T) {
	l := sent(3)
	l.Note(part, 3, NewID(1, 0), Ack, "ack")
	l.Note(part, 4, NewID(1, 1), Ack, "ack")
	l.Note(part, 4, NewID(1, 1), Group, "group")
	l.Note(part, 5, NewID(1, 2), Group, "group")
	if got := l.Ends()[part]; got != 6 {
		t.Errorf("least end %d, want 6", got)
	}
	if got := l.Acked(); got != 2 {
		t.Errorf("%d acknowledged, want 2", got)
	}
	if got := l.Missing("t", Group); got != 1 {
		t.Errorf("%d missing, want 1", got)
	}
	wants(t, l, "")
}

func TestKeepsHighestCommit(t *testing.T) {
	l := New()
	l.Commit(part, 5)
	l.Commit(part, 3)
	if got := l.Commits()[part]; got != 5 {
		t.Fatalf("commit %d, want 5", got)
	}
}

func TestRecordID(t *testing.T) {
	id := NewID(3, 123456)
	if id.Producer() != 3 || id.Seq() != 123456 || id.String() != "3/123456" {
		t.Fatalf("id %v: producer %d, seq %d", id, id.Producer(), id.Seq())
	}
	if got, err := Parse(Value(id, 0)); got != id || err != nil {
		t.Fatalf("parsed %v, %v", got, err)
	}
}
