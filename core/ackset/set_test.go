package ackset

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"polylog/core"
	"polylog/core/wire"
)

// model is the set as people think of it: one bit for each offset.
type model [600]bool

func (m *model) floor() core.Offset { return m.next(0) }

func (m *model) next(o core.Offset) core.Offset {
	for int(o) < len(m) && m[o] {
		o++
	}
	return o
}

func (m *model) add(first, end core.Offset) (added int64) {
	for o := first; o < end; o++ {
		if !m[o] {
			m[o] = true
			added++
		}
	}
	return added
}

func (m *model) spans() (all []Span) {
	for o := m.floor(); int(o) < len(m); o++ {
		if m[o] {
			end := m.next(o)
			all = append(all, Span{o, end})
			o = end
		}
	}
	return all
}

// TestAgainstModel adds at random, in both forms, across the border of two parts of a
// bitmap, and compares everything with one bit for each offset.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := core.Offset(rapid.SampledFrom([]int64{0, 1<<32 - 300, 5<<32 - 10}).Draw(t, "base"))
		s, m := New(base), new(model)
		for range rapid.IntRange(1, 250).Draw(t, "steps") {
			first := core.Offset(rapid.IntRange(0, len(m)-1).Draw(t, "first"))
			end := min(first+core.Offset(rapid.SampledFrom([]int{0, 1, 1, 1, 2, 40}).Draw(t, "len")), core.Offset(len(m)))
			if got, want := s.Add(base+first, base+end), m.add(first, end); got != want {
				t.Fatalf("Add(%d, %d) = %d, want %d", first, end, got, want)
			}
			if rapid.IntRange(0, 20).Draw(t, "compact") == 0 {
				s.Compact()
			}
			if s.Floor() != base+m.floor() {
				t.Fatalf("floor %d, want %d", s.Floor()-base, m.floor())
			}
			if s.bits == nil && len(s.spans) > maxSpans {
				t.Fatalf("%d spans", len(s.spans))
			}
		}
		check(t, s, m, base)
		check(t, s.Clone(), m, base)
		b := s.AppendTo(nil)
		r := wire.NewReader(b)
		got, err := Read(&r)
		if err != nil || r.Close() != nil {
			t.Fatal(err, r.Err())
		}
		check(t, got, m, base)
		if !bytes.Equal(got.AppendTo(nil), b) {
			t.Fatal("the encoding depends on the form")
		}
	})
}

func check(t *rapid.T, s *Set, m *model, base core.Offset) {
	t.Helper()
	above := int64(0)
	for o := range core.Offset(len(m)) {
		if s.Contains(base+o) != m[o] {
			t.Fatalf("Contains(%d) = %v", o, !m[o])
		}
		want := m.next(max(o, m.floor()))
		if got := s.NextUnsettled(base + o); got != base+want {
			t.Fatalf("NextUnsettled(%d) = %d, want %d", o, got-base, want)
		}
		if o >= m.floor() && m[o] {
			above++
		}
	}
	if s.Above() != above {
		t.Fatalf("Above() = %d, want %d", s.Above(), above)
	}
	want := m.spans()
	for i := range want {
		want[i] = Span{want[i].First + base, want[i].End + base}
	}
	if got := slices.Collect(s.Spans()); !slices.Equal(got, want) {
		t.Fatalf("spans %v, want %v", got, want)
	}
	var open []Span
	s.Unsettled(0, base+core.Offset(len(m)), func(sp Span) { open = append(open, sp) })
	n := s.Floor()
	for _, sp := range open {
		n += core.Offset(sp.Len())
	}
	if n+core.Offset(above) != base+core.Offset(len(m)) {
		t.Fatalf("unsettled %v beside floor %d and %d above", open, s.Floor(), above)
	}
}

// TestManyHoles goes to a bitmap and back.
func TestManyHoles(t *testing.T) {
	s := New(0)
	for o := core.Offset(1); o < 1000; o += 2 {
		s.Add(o, o+1)
	}
	if s.bits == nil {
		t.Fatal("500 spans in a slice")
	}
	for o := core.Offset(0); o < 990; o += 2 {
		s.Add(o, o+1)
	}
	s.Compact()
	if s.bits != nil || s.Floor() != 990 || len(s.spans) != 5 {
		t.Fatalf("floor %d, spans %v", s.Floor(), s.spans)
	}
}

// TestWideAgainstModel settles ranges and strides over several containers of a bitmap, whose three
// forms end at their borders in different ways, and looks at the floor and the spans.
func TestWideAgainstModel(t *testing.T) {
	const width = 5 << 15
	rapid.Check(t, func(t *rapid.T) {
		base := core.Offset(rapid.SampledFrom([]int64{0, 1<<32 - 3<<15}).Draw(t, "base"))
		s, m := New(base), make([]bool, width)
		for o := core.Offset(1); o < 4*maxSpans; o += 2 { // it is a bitmap from here on
			s.Add(base+o, base+o+1)
			m[o] = true
		}
		at := rapid.OneOf(rapid.IntRange(0, width-1), rapid.Map(rapid.IntRange(0, width/64-1), func(word int) int { return word * 64 }), rapid.SampledFrom([]int{0, 1 << 16, 2 << 16}))
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			first, end := at.Draw(t, "first"), at.Draw(t, "end")
			step := rapid.SampledFrom([]int{1, 1, 1, 2, 3, 64, 1000}).Draw(t, "step")
			if step == 1 {
				s.Add(base+core.Offset(first), base+core.Offset(end))
			}
			for o := first; o < end; o += step {
				m[o] = true
				if step > 1 {
					s.Add(base+core.Offset(o), base+core.Offset(o)+1)
				}
			}
			floor := slices.Index(m, false)
			if floor < 0 {
				floor = width
			}
			if s.Floor() != base+core.Offset(floor) {
				t.Fatalf("floor %d, want %d", s.Floor()-base, floor)
			}
			last := s.Floor()
			for sp := range s.Spans() {
				if sp.First <= last || sp.Len() <= 0 {
					t.Fatalf("span %v after %d", sp, last)
				}
				if slices.Contains(m[last-base:sp.First-base], true) || slices.Contains(m[sp.First-base:sp.End-base], false) {
					t.Fatalf("span %v is not what was settled", sp)
				}
				last = sp.End
			}
			o := core.Offset(at.Draw(t, "from"))
			want := o
			for int(want) < width && m[want] {
				want++
			}
			if got := s.NextUnsettled(base + o); got != base+max(want, core.Offset(floor)) {
				t.Fatalf("NextUnsettled(%d) = %d, want %d", o, got-base, want)
			}
		}
	})
}

// TestFullContainer fills the hole below a bitmap whose last container is full to its end.
func TestFullContainer(t *testing.T) {
	s := New(0)
	for o := core.Offset(1); o < 4*maxSpans; o += 2 {
		s.Add(o, o+1)
	}
	s.Add(1, 1<<16)
	if s.Add(0, 1); s.Floor() != 1<<16 {
		t.Fatalf("floor %d, want %d", s.Floor(), 1<<16)
	}
}

func FuzzRead(f *testing.F) {
	s := New(5)
	s.Add(7, 9)
	f.Add(s.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		s, err := Read(&r)
		if err != nil {
			return
		}
		r = wire.NewReader(s.AppendTo(nil))
		again, err := Read(&r)
		if err != nil || !slices.Equal(slices.Collect(s.Spans()), slices.Collect(again.Spans())) || s.Floor() != again.Floor() {
			t.Fatalf("%v, %v", again, err)
		}
	})
}

func BenchmarkAckInOrder(b *testing.B) {
	s := New(0)
	for i := range b.N {
		s.Add(core.Offset(i), core.Offset(i)+1)
	}
}

// BenchmarkAckWithHole settles in order above one that stays open.
func BenchmarkAckWithHole(b *testing.B) {
	s := New(0)
	for i := range b.N {
		s.Add(core.Offset(i)+1, core.Offset(i)+2)
	}
}
