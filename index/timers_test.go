package index

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"polylog/core"
	"polylog/core/vfs"
)

// TestTimersModel compares timers with a map, across checkpoints and power cuts, with times
// that go back and timers that are moved, taken and set again.
func TestTimersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		open := func() (*Store, *Timers) {
			s, err := Open(Options{FS: fs, Dir: "index"})
			if err != nil {
				t.Fatal(err)
			}
			return s, NewTimers('y', 't')
		}
		s, timers := open()
		defer func() { _ = s.Close() }()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		model, durable := map[string]Timer{}, map[string]Timer{}
		applied := core.LogIndex(0)
		id := rapid.Map(rapid.IntRange(0, 12), func(n int) []byte { return fmt.Appendf(nil, "%d", n) })
		at := rapid.OneOf(rapid.Int64Range(-2, 20), rapid.Just[int64](math.MaxInt64-1))
		// due are the model's timers up to now, the earliest first.
		due := func(now int64) (all []Timer) {
			for _, m := range model {
				if m.Due <= now {
					all = append(all, m)
				}
			}
			slices.SortFunc(all, func(a, b Timer) int { return cmp.Or(cmp.Compare(a.Due, b.Due), bytes.Compare(a.ID, b.ID)) })
			return all
		}
		same := func(got, want []Timer) {
			t.Helper()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
		update := func(fn func(*Tx)) {
			t.Helper()
			must(s.Update(func(tx *Tx) error {
				fn(tx)
				applied++
				tx.SetApplied(applied)
				return nil
			}))
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				i, when, v := id.Draw(t, "id"), at.Draw(t, "due"), rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value")
				update(func(tx *Tx) { must(timers.Set(tx, i, when, v)) })
				model[string(i)] = Timer{max(when, 0), i, v}
				if !timers.Publish() {
					t.Fatal("nothing was set")
				}
				if low := timers.Lowered(); low != max(when, 0) {
					t.Fatalf("lowered to %d, want %d", low, when)
				}
			},
			"cancel": func(t *rapid.T) {
				i := id.Draw(t, "id")
				update(func(tx *Tx) {
					was, err := timers.Cancel(tx, i)
					must(err)
					if _, want := model[string(i)]; was != want {
						t.Fatalf("timer %s was there: %v, want %v", i, was, want)
					}
				})
				delete(model, string(i))
			},
			"take": func(t *rapid.T) {
				now, limit := at.Draw(t, "now"), rapid.IntRange(1, 5).Draw(t, "limit")
				want := due(max(now, 0))
				want = want[:min(limit, len(want))]
				update(func(tx *Tx) {
					got, err := timers.Take(tx, max(now, 0), limit, nil)
					must(err)
					same(got, want)
				})
				for _, m := range want {
					delete(model, string(m.ID))
				}
			},
			"checkpoint": func(*rapid.T) {
				cp, err := s.Freeze()
				must(err)
				must(cp.Write())
				durable = maps.Clone(model)
			},
			"power": func(*rapid.T) {
				left := fs.CrashClone(vfs.CrashCloneCfg{})
				must(s.Close())
				fs = left
				s, timers = open()
				applied = s.Durable()
				model = maps.Clone(durable)
			},
			"": func(t *rapid.T) {
				got, err := timers.Scan(s, 0, nil, math.MaxInt64, 100, nil)
				must(err)
				all := due(math.MaxInt64)
				same(got, all)
				for i, m := range all {
					next, err := timers.Scan(s, m.Due, m.ID, math.MaxInt64, 1, nil)
					must(err)
					same(next, all[i+1:min(i+2, len(all))])
					v, ok, err := timers.Value(s, m.ID)
					must(err)
					if !ok || !bytes.Equal(v, m.Value) {
						t.Fatalf("timer %s has %q, want %q", m.ID, v, m.Value)
					}
				}
			},
		})
	})
}
