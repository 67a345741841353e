package state

import (
	"fmt"
	"slices"
	"testing"

	"polylog/core"
	"polylog/core/topicfilter"
)

func retainCommand(t testing.TB, name, value string) core.Command {
	t.Helper()
	var bb core.BatchBuilder
	bb.Add(1, []byte(name), []byte(value))
	b, err := bb.Build(nil, core.BatchOptions{Producer: core.Nobody})
	if err != nil {
		t.Fatal(err)
	}
	c := Retain{Queue: 1, Name: core.TopicName(name), Batch: b}
	return c.Command()
}

// retained reads what matches, at most limit at a time.
func (m *machine) retained(filter string, limit int) (names []string) {
	from := ""
	for {
		n := 0
		next, more, err := ReadRetained(m.store, core.DefaultNamespace, filter, from, func(r Retained) bool {
			var rec core.Record
			m.must(core.FirstRecord(r.Batch, &rec))
			names = append(names, r.Name+"="+string(rec.Value))
			n++
			return n < limit
		})
		m.must(err)
		if !more {
			return names
		}
		from = next
	}
}

// TestRetained keeps the newest message of each name, through a crash too.
func TestRetained(t *testing.T) {
	m, log := newMachine(t), newEntries()
	topic := CreateTopic{Name: core.TopicName("t"), Partitions: 1}
	m.state.Apply(log.take(topic.Command()))
	apply := func(c core.Command, want core.Kind) {
		t.Helper()
		if res := m.state.Apply(log.take(c))[0][0]; core.KindOf(errOf(res)) != want {
			t.Fatalf("%s, want %v", res, want)
		}
	}
	for _, name := range []string{"a", "a/b", "a/b/c", "a/c", "a/", "ab", "b/b", "$SYS/x", "/"} {
		apply(retainCommand(t, name, "old"), core.OK)
		apply(retainCommand(t, name, "1"), core.OK)
	}
	apply(retainCommand(t, "a/c", ""), core.OK)
	want := map[string][]string{
		"#":       {"/=1", "a=1", "a/=1", "a/b=1", "a/b/c=1", "ab=1", "b/b=1"},
		"a/#":     {"a=1", "a/=1", "a/b=1", "a/b/c=1"},
		"a/+":     {"a/=1", "a/b=1"},
		"+/b":     {"a/b=1", "b/b=1"},
		"+/b/#":   {"a/b=1", "a/b/c=1", "b/b=1"},
		"+":       {"a=1", "ab=1"},
		"a/c":     nil,
		"a/b":     {"a/b=1"},
		"$SYS/#":  {"$SYS/x=1"},
		"a/b/c/d": nil,
		"a/+/+":   {"a/b/c=1"},
	}
	check := func() {
		t.Helper()
		for filter, names := range want {
			for _, limit := range []int{1, 2, 100} {
				if got := m.retained(filter, limit); !slices.Equal(got, names) {
					t.Errorf("%s, %d at a time: %q, want %q", filter, limit, got, names)
				}
			}
		}
	}
	check()
	if head, _, _ := m.store.Queue(1); head.End != 19 {
		t.Errorf("%d records in the topic, want 19", head.End)
	}
	m.checkpoint()
	m.crash(log.all)
	check()
	two := Retain{Queue: 1, Name: core.TopicName("a"), Batch: batch(t, 2, 1, core.Nobody)}
	apply(two.Command(), core.Invalid)
	apply(retainCommand(t, "a/#", "x"), core.Invalid)
	nowhere := Retain{Queue: 7, Name: core.TopicName("a"), Batch: batch(t, 1, 1, core.Nobody)}
	apply(nowhere.Command(), core.NotFound)
}

func errOf(r core.Result) error {
	if r.Err == nil {
		return nil
	}
	return r.Err
}

// TestRetainedWalkFindsWhatMatches compares the walk, which jumps, with looking at each name.
// With 3,000 names in its way a filter whose last level is nowhere looks at few of them.
func TestRetainedWalkFindsWhatMatches(t *testing.T) {
	m, log := newMachine(t), newEntries()
	topic := CreateTopic{Name: core.TopicName("t"), Partitions: 1}
	m.state.Apply(log.take(topic.Command()))
	var names []string
	for a := range 5 {
		for b := range 30 {
			for c := range 20 {
				names = append(names, fmt.Sprintf("%d/%d/%d", a, b, c))
			}
		}
	}
	var cs []core.Command
	for _, n := range names {
		cs = append(cs, retainCommand(t, n, "1"))
	}
	m.state.Apply(log.take(cs...))
	for _, filter := range []string{"#", "1/#", "+/7/#", "+/+/7", "3/+/7", "+/29/19", "+/7/nowhere", "nowhere/#", "+/nowhere/7", "9/+/+", "+/7"} {
		var want []string
		for _, n := range names {
			if topicfilter.Match(filter, n) {
				want = append(want, n+"=1")
			}
		}
		got := m.retained(filter, 50)
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: %d names, want %d", filter, len(got), len(want))
		}
	}
}
