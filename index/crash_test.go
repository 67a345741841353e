package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"polylog/core"
	"polylog/core/vfs"
)

// stage is a piece of a history: changes, then a checkpoint.
type stage struct {
	name   string
	change func(w *world)
}

// world applies changes to a Tx and the model alike.
type world struct {
	t  *testing.T
	tx *Tx
	m  *model
}

func (w *world) create(q core.QueueID) {
	w.m.queues[q] = modelQueue{}
	w.must(w.tx.CreateQueue(q))
}

func (w *world) drop(q core.QueueID) {
	delete(w.m.queues, q)
	w.must(w.tx.DropQueue(q))
}

func (w *world) append(q core.QueueID, n int, count uint32) {
	mq := w.m.queues[q]
	mq.runs = slices.Clone(mq.runs)
	for i := range n {
		r := core.Run{MaxTime: int64(i % 50), Ref: core.Ref{Index: w.m.applied, Pos: uint32(i), Len: 100, Count: count}}
		r, err := w.tx.Append(q, r)
		w.must(err)
		mq.runs, mq.end = append(mq.runs, r), r.End()
	}
	w.m.queues[q] = mq
}

func (w *world) trim(q core.QueueID, before core.Offset) {
	w.m.trim(q, before)
	w.must(w.tx.Trim(q, before))
}

func (w *world) set(i int, v string) {
	w.m.keys[keyName(i)] = v
	w.tx.Set([]byte(keyName(i)), []byte(v))
}

func (w *world) delete(i int) {
	delete(w.m.keys, keyName(i))
	w.tx.Delete([]byte(keyName(i)))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// history has every kind of change that a checkpoint can carry, in small batches and
// in ones that Pebble treats as large.
var history = []stage{
	{"create", func(w *world) {
		for q := core.QueueID(1); q <= 4; q++ {
			w.create(q)
			w.append(q, 10, uint32(q))
		}
		w.set(1, "one")
		w.set(2, "two")
	}},
	{"grow over chunks", func(w *world) {
		w.append(1, 2100, 1)
		w.append(2, 40, 700)
		w.set(2, "deux")
		w.delete(1)
	}},
	{"nothing", func(*world) {}},
	{"trim chunks, drop, drop and create", func(w *world) {
		w.trim(1, 1500)
		w.trim(2, 20_003)
		w.drop(3)
		w.drop(4)
		w.create(4)
		w.append(4, 5, 3)
	}},
	{"large", func(w *world) {
		w.append(1, 1200, 1)
		w.trim(4, 15)
		w.set(3, strings.Repeat("trois", largeBatch/5+1))
	}},
}

// apply does one stage and takes its checkpoint. before is called between the two.
func (st stage) apply(t *testing.T, s *Store, m *model, before func()) error {
	m.applied += 1500
	s.mustUpdate(t, func(tx *Tx) {
		st.change(&world{t, tx, m})
		tx.SetApplied(m.applied)
		tx.SetConfiguration(m.applied-1, fmt.Append(nil, "conf of ", st.name))
		m.conf = "conf of " + st.name
	})
	c, err := s.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	before()
	return c.Write()
}

// equalStore compares all that a store can tell.
func (m *model) equalStore(t fataler, what string, s *Store) {
	t.Helper()
	m.equal(t, what, s)
	_, conf := s.Configuration()
	if s.Applied() != m.applied || s.FirstLive() != m.firstLive() || string(conf) != m.conf {
		t.Fatalf("%s: applied %d, first live %d, configuration %q; want %d, %d, %q", what,
			s.Applied(), s.FirstLive(), conf, m.applied, m.firstLive(), m.conf)
	}
}

// TestCrashAtEveryStep cuts the power before every operation on the file system that
// a checkpoint makes, with none, some or all of what was not synced surviving, and
// opens what is left: it must be the state before or after the checkpoint.
func TestCrashAtEveryStep(t *testing.T) {
	type cut struct {
		fs   *vfs.MemFS
		what string
	}
	mem := vfs.NewMem()
	rnd := rand.New(rand.NewPCG(3, 4))
	var (
		mu   sync.Mutex // guards rnd, cuts and on, which Pebble's goroutines use
		cuts []cut
		on   bool
	)
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if on && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			for _, percent := range []int{0, 40 + 60*(len(cuts)/2%2)} {
				clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rnd})
				cuts = append(cuts, cut{clone, fmt.Sprintf("before operation %d on %s, %d %% kept", op.Kind, op.Path, percent)})
			}
		}
		return nil
	}))
	s, err := Open(Options{FS: fs, Dir: "index"})
	if err != nil {
		t.Fatal(err)
	}
	m := newModel()
	for i, st := range history {
		old := m.clone()
		err := st.apply(t, s, m, func() {
			mu.Lock()
			cuts, on = nil, true
			mu.Unlock()
		})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		on = false
		taken := cuts
		mu.Unlock()
		if len(taken) < 9 {
			t.Fatalf("%s: only %d cuts", st.name, len(taken))
		}
		var seen [2]int
		for n, c := range taken {
			rest := history[i:]
			if n%4 != 0 {
				rest = nil // going on takes longest
			}
			seen[reopened(t, fmt.Sprintf("%s, cut %d, %s", st.name, n, c.what), c.fs, old, m, rest)]++
		}
		if seen[0] == 0 {
			t.Errorf("%s: no cut came before the checkpoint", st.name)
		}
		// Once Write has returned there is no way back.
		after := mem.CrashClone(vfs.CrashCloneCfg{})
		if reopened(t, st.name+", afterwards", after, old, m, history[i:]) != 1 {
			t.Fatalf("%s: lost after Write returned", st.name)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// reopened opens what a crash left and tells whether it is before (0) or after (1).
// It then goes on from there, if rest says how, to see that nothing invisible is broken.
func reopened(t *testing.T, what string, fs *vfs.MemFS, before, after *model, rest []stage) (which int) {
	t.Helper()
	s, err := Open(Options{FS: fs, Dir: "index"})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	m := before.clone()
	if s.Applied() == after.applied {
		m, which, rest = after.clone(), 1, rest[min(1, len(rest)):]
	}
	m.equalStore(t, what, s)
	if len(rest) > 0 {
		if err := rest[0].apply(t, s, m, func() {}); err != nil {
			t.Fatalf("%s: going on: %v", what, err)
		}
		m.equalStore(t, what+", going on", s)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("%s: close: %v", what, err)
	}
	return which
}

// TestHashIgnoresCheckpoints runs one history on stores that checkpoint at different
// times.
func TestHashIgnoresCheckpoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newMachine(t), newMachine(t)
		defer a.close(t)
		defer b.close(t)
		for range rapid.IntRange(1, 10).Draw(t, "updates") {
			m := a.m.clone()
			ops := rapid.SliceOfN(rapid.Uint64(), 1, 6).Draw(t, "ops")
			for _, x := range []*machine{a, b} {
				x.m = m.clone()
				err := x.s.Update(func(tx *Tx) error {
					for _, op := range ops {
						scriptedOp(t, x.m, tx, op)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, x := range []*machine{a, b} {
				if rapid.IntRange(0, 2).Draw(t, "checkpoint") == 0 {
					c, err := x.s.Freeze()
					if err != nil {
						t.Fatal(err)
					}
					if err := c.Write(); err != nil {
						t.Fatal(err)
					}
				}
			}
			ha, erra := a.s.Hash()
			hb, errb := b.s.Hash()
			if erra != nil || errb != nil || ha != hb {
				t.Fatalf("hashes %x and %x, errors %v and %v", ha, hb, erra, errb)
			}
			a.m.equal(t, "a", a.s)
			a.m.equal(t, "b", b.s)
		}
		before, err := a.s.Hash()
		if err != nil {
			t.Fatal(err)
		}
		a.s.mustSet(t, "one more", "pair")
		if after, err := a.s.Hash(); err != nil || after == before {
			t.Fatalf("a new pair leaves the hash as it was; %v", err)
		}
	})
}

func (s *Store) mustSet(t fataler, key, value string) {
	err := s.Update(func(tx *Tx) error {
		tx.Set([]byte(key), []byte(value))
		return nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// scriptedOp does what the number op says, to the model and tx.
func scriptedOp(t *rapid.T, m *model, tx *Tx, op uint64) {
	q := core.QueueID(op%maxQueue + 1)
	mq, exists := m.queues[q]
	var err error
	switch n := op / maxQueue; {
	case !exists:
		m.queues[q] = modelQueue{}
		err = tx.CreateQueue(q)
	case n%8 == 0:
		before := mq.start + core.Offset(n/8)%(mq.end-mq.start+1)
		m.trim(q, before)
		err = tx.Trim(q, before)
	case n%8 == 1:
		k := keyName(int(n/8) % maxKey)
		delete(m.keys, k)
		tx.Delete([]byte(k))
	case n%8 == 2:
		k := keyName(int(n/8) % maxKey)
		m.keys[k] = "v"
		tx.Set([]byte(k), []byte("v"))
	case n%64 == 3:
		delete(m.queues, q)
		err = tx.DropQueue(q)
	default:
		m.applied++
		r := core.Run{MaxTime: int64(n % 1000), Ref: core.Ref{Index: m.applied, Len: 7, Count: uint32(n%500) + 1}}
		m.append(q, r)
		_, err = tx.Append(q, r)
	}
	if err != nil {
		t.Fatal(err)
	}
}
