package index

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"polylog/core"
	"polylog/core/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is the naive truth: what a Store should answer.
type model struct {
	queues  map[core.QueueID]modelQueue
	keys    map[string]string
	applied core.LogIndex
	conf    string
}

// modelQueue holds live runs; it is never changed in place.
type modelQueue struct {
	start, end core.Offset
	runs       []core.Run
}

func newModel() *model {
	return &model{queues: map[core.QueueID]modelQueue{}, keys: map[string]string{}}
}

func (m *model) clone() *model {
	c := *m
	c.queues, c.keys = maps.Clone(m.queues), maps.Clone(m.keys)
	return &c
}

func (m *model) append(q core.QueueID, r core.Run) core.Run {
	mq := m.queues[q]
	r.Offset = mq.end
	mq.runs = append(slices.Clip(mq.runs), r)
	mq.end = r.End()
	m.queues[q] = mq
	return r
}

func (m *model) trim(q core.QueueID, before core.Offset) {
	mq := m.queues[q]
	if before <= mq.start {
		return
	}
	mq.start = before
	for len(mq.runs) > 0 && mq.runs[0].End() <= before {
		mq.runs = mq.runs[1:]
	}
	m.queues[q] = mq
}

func (mq modelQueue) head() Head {
	h := Head{Start: mq.start, End: mq.end, Runs: int64(len(mq.runs)), MaxTime: -1, MaxTimeOffset: -1}
	for i, r := range mq.runs {
		h.Bytes += int64(r.Len)
		if i == 0 || r.MaxTime > h.MaxTime {
			h.MaxTime, h.MaxTimeOffset = r.MaxTime, r.Offset
		}
	}
	return h
}

func (mq modelQueue) first(match func(core.Run) bool) (core.Run, bool) {
	if i := slices.IndexFunc(mq.runs, match); i >= 0 {
		return mq.runs[i], true
	}
	return core.Run{}, false
}

func (m *model) firstLive() core.LogIndex {
	first := core.LogIndex(0)
	for _, mq := range m.queues {
		for _, r := range mq.runs {
			if i := max(r.Index>>bucketBits<<bucketBits, 1); first == 0 || i < first {
				first = i
			}
		}
	}
	return first
}

// fataler is what testing.T and rapid.T share here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// equal compares everything that r answers with the model. Queue ids are in
// [1, maxQueue].
func (m *model) equal(t fataler, what string, r Reader) {
	t.Helper()
	for q := core.QueueID(0); q <= maxQueue; q++ {
		m.equalQueue(t, what, r, q)
	}
	got := map[string]string{}
	var last []byte
	err := r.Scan(nil, nil, func(k, v []byte) bool {
		if last != nil && bytes.Compare(last, k) >= 0 {
			t.Fatalf("%s: scan gave %q after %q", what, k, last)
		}
		last = bytes.Clone(k)
		got[string(k)] = string(v)
		return true
	})
	if diff := cmp.Diff(m.keys, got); err != nil || diff != "" {
		t.Fatalf("%s: scan: %v %s", what, err, diff)
	}
	for i := range maxKey {
		k := keyName(i)
		v, ok, err := r.Get([]byte(k))
		if want, exists := m.keys[k]; err != nil || ok != exists || string(v) != want {
			t.Fatalf("%s: get %q: %q %v %v, want %q %v", what, k, v, ok, err, want, exists)
		}
	}
	var some []string
	err = r.Scan([]byte(keyName(3)), []byte(keyName(7)), func(k, _ []byte) bool {
		some = append(some, string(k))
		return len(some) < 3
	})
	var want []string
	for _, k := range slices.Sorted(maps.Keys(m.keys)) {
		if k >= keyName(3) && k < keyName(7) && len(want) < 3 {
			want = append(want, k)
		}
	}
	if err != nil || !slices.Equal(some, want) {
		t.Fatalf("%s: scan of a range: %q %v, want %q", what, some, err, want)
	}
}

func (m *model) equalQueue(t fataler, what string, r Reader, q core.QueueID) {
	t.Helper()
	mq, exists := m.queues[q]
	h, ok, err := r.Queue(q)
	if err != nil || ok != exists || (ok && h != mq.head()) {
		t.Fatalf("%s: queue %d: %+v %v %v, want %+v %v", what, q, h, ok, err, mq.head(), exists)
	}
	if !exists {
		_, rerr := r.Runs(q, 0, 1, nil)
		_, _, terr := r.RunByTime(q, 0)
		_, _, ierr := r.RunByIndex(q, 0)
		for _, err := range []error{rerr, terr, ierr} {
			if core.KindOf(err) != core.NotFound {
				t.Fatalf("%s: no queue %d, but %v", what, q, err)
			}
		}
		return
	}
	all, err := r.Runs(q, 0, 1<<30, nil)
	if diff := cmp.Diff(mq.runs, all, equateEmpty); err != nil || diff != "" {
		t.Fatalf("%s: runs of queue %d: %v %s", what, q, err, diff)
	}
	step := max((mq.end-mq.start)/7, 1)
	for from := mq.start; from <= mq.end; from += step {
		got, err := r.Runs(q, from, 2, nil)
		var want []core.Run
		for _, r := range mq.runs {
			if r.End() > from && len(want) < 2 {
				want = append(want, r)
			}
		}
		if diff := cmp.Diff(want, got, equateEmpty); err != nil || diff != "" {
			t.Fatalf("%s: runs of queue %d from %d: %v %s", what, q, from, err, diff)
		}
	}
	probes := slices.Clone(mq.runs)
	if len(probes) > 12 {
		probes = append(probes[:6], probes[len(probes)-6:]...)
	}
	probes = append(probes, core.Run{MaxTime: -5}, core.Run{MaxTime: 1 << 60, Ref: core.Ref{Index: 1 << 60}})
	for _, p := range probes {
		for d := int64(-1); d <= 1; d++ {
			ms, i := p.MaxTime+d, p.Index+core.LogIndex(d)
			got, ok, err := r.RunByTime(q, ms)
			want, wantOK := mq.first(func(r core.Run) bool { return r.MaxTime >= ms })
			if err != nil || ok != wantOK || got != want {
				t.Fatalf("%s: queue %d by time %d: %+v %v %v, want %+v %v", what, q, ms, got, ok, err, want, wantOK)
			}
			got, ok, err = r.RunByIndex(q, i)
			want, wantOK = mq.first(func(r core.Run) bool { return r.Index >= i })
			if err != nil || ok != wantOK || got != want {
				t.Fatalf("%s: queue %d by index %d: %+v %v %v, want %+v %v", what, q, i, got, ok, err, want, wantOK)
			}
		}
	}
}

// equalQueues compares the list of queues.
func (m *model) equalQueues(t fataler, sn *Snapshot) {
	t.Helper()
	var got []core.QueueID
	err := sn.Queues(func(q core.QueueID, h Head) bool {
		got = append(got, q)
		if h != m.queues[q].head() {
			t.Fatalf("queue %d listed with %+v, want %+v", q, h, m.queues[q].head())
		}
		return true
	})
	if want := slices.Sorted(maps.Keys(m.queues)); err != nil || !slices.Equal(got, want) {
		t.Fatalf("queues %v, %v, want %v", got, err, want)
	}
}

var equateEmpty = cmp.Transformer("empty", func(rs []core.Run) []core.Run {
	return append([]core.Run{}, rs...)
})

const (
	maxQueue = 6
	maxKey   = 10
)

func keyName(i int) string { return fmt.Sprintf("key/%02d", i) }

// machine drives a Store and the model with the same random operations.
type machine struct {
	fs    *vfs.MemFS
	s     *Store
	m     *model
	index core.LogIndex

	ckpt    *Checkpoint
	frozen  *model // what ckpt will make durable
	durable *model

	snap  *Snapshot
	snapM *model
}

func newMachine(t fataler) *machine {
	x := &machine{fs: vfs.NewMem(), m: newModel(), durable: newModel()}
	x.open(t)
	return x
}

func (x *machine) open(t fataler) {
	s, err := Open(Options{FS: x.fs, Dir: "index"})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	x.s = s
}

func (x *machine) close(t fataler) {
	x.closeSnapshot()
	if err := x.s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func (x *machine) closeSnapshot() {
	if x.snap != nil {
		x.snap.Close()
		x.snap, x.snapM = nil, nil
	}
}

// lose goes back to the last checkpoint.
func (x *machine) lose() {
	x.m, x.ckpt, x.frozen = x.durable.clone(), nil, nil
	x.index = x.m.applied
}

func (x *machine) update(t *rapid.T) {
	m := x.m.clone()
	fail := rapid.IntRange(0, 9).Draw(t, "fail") == 0
	errFail := core.E(core.Internal, "on purpose")
	err := x.s.Update(func(tx *Tx) error {
		for range rapid.IntRange(1, 8).Draw(t, "ops") {
			x.index += core.LogIndex(rapid.SampledFrom([]int{0, 1, 1, 700}).Draw(t, "advance"))
			x.op(t, m, tx)
		}
		m.applied = x.index
		tx.SetApplied(x.index)
		if rapid.Bool().Draw(t, "see own writes") {
			m.equal(t, "inside an update", tx)
			x.m.equal(t, "beside an update", x.s)
		}
		if fail {
			return errFail
		}
		return nil
	})
	if fail {
		if err != errFail { //nolint:errorlint // the very error must come back
			t.Fatalf("update: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	x.m = m
}

func (x *machine) op(t *rapid.T, m *model, tx *Tx) {
	q := core.QueueID(rapid.IntRange(1, maxQueue).Draw(t, "queue"))
	mq, exists := m.queues[q]
	check := func(what string, want core.Kind, err error) {
		if core.KindOf(err) != want {
			t.Fatalf("%s queue %d: %v, want %v", what, q, err, want)
		}
	}
	missing := core.OK
	if !exists {
		missing = core.NotFound
	}
	switch rapid.SampledFrom([]string{"create", "drop", "append", "append", "append", "many", "trim", "trim", "set", "set", "delete", "conf"}).Draw(t, "op") {
	case "create":
		want := core.OK
		if exists {
			want = core.Exists
		} else {
			m.queues[q] = modelQueue{}
		}
		check("create", want, tx.CreateQueue(q))
	case "drop":
		if rapid.IntRange(0, 2).Draw(t, "really") > 0 {
			delete(m.queues, q)
			check("drop", missing, tx.DropQueue(q))
		}
	case "append":
		x.append(t, m, tx, q, missing, uint32(rapid.SampledFrom([]int{1, 2, 100, 5000}).Draw(t, "count")))
	case "many":
		for range 300 {
			x.append(t, m, tx, q, missing, 1)
		}
	case "trim":
		before := core.Offset(rapid.Int64Range(int64(mq.start), int64(mq.end)).Draw(t, "before"))
		if rapid.IntRange(0, 9).Draw(t, "beyond") == 0 {
			before = mq.end + 1
			if exists {
				missing = core.OutOfRange
			}
		}
		if missing == core.OK {
			m.trim(q, before)
		}
		check("trim", missing, tx.Trim(q, before))
	case "set":
		k := keyName(rapid.IntRange(0, maxKey-1).Draw(t, "key"))
		v := rapid.StringN(0, 5, -1).Draw(t, "value")
		m.keys[k] = v
		tx.Set([]byte(k), []byte(v))
	case "delete":
		k := keyName(rapid.IntRange(0, maxKey-1).Draw(t, "key"))
		delete(m.keys, k)
		tx.Delete([]byte(k))
	case "conf":
		m.conf = fmt.Sprint("conf at ", x.index)
		tx.SetConfiguration(x.index, []byte(m.conf))
	}
}

func (x *machine) append(t *rapid.T, m *model, tx *Tx, q core.QueueID, missing core.Kind, count uint32) {
	r := core.Run{
		MaxTime: rapid.SampledFrom([]int64{-1, 0, 5, 1000 + int64(x.index), 1000 - int64(x.index)}).Draw(t, "time"),
		Ref:     core.Ref{Index: max(x.index, 1), Pos: 9, Len: count * 10, First: 3, Count: count},
	}
	got, err := tx.Append(q, r)
	if core.KindOf(err) != missing {
		t.Fatalf("append to queue %d: %v, want %v", q, err, missing)
	}
	if err != nil {
		return
	}
	if want := m.append(q, r); got != want {
		t.Fatalf("append to queue %d: %+v, want %+v", q, got, want)
	}
}

func (x *machine) check(t *rapid.T) {
	x.m.equal(t, "latest", x.s)
	if x.snap != nil {
		x.snapM.equal(t, "snapshot", x.snap)
		x.snapM.equalQueues(t, x.snap)
	}
	if got := x.s.Applied(); got != x.m.applied {
		t.Fatalf("applied %d, want %d", got, x.m.applied)
	}
	if got := x.s.Durable(); got != x.durable.applied {
		t.Fatalf("durable %d, want %d", got, x.durable.applied)
	}
	if got, want := x.s.FirstLive(), x.m.firstLive(); got != want {
		t.Fatalf("first live index %d, want %d", got, want)
	}
	if _, conf := x.s.Configuration(); string(conf) != x.m.conf {
		t.Fatalf("configuration %q, want %q", conf, x.m.conf)
	}
	if x.s.OverlayBytes() < 0 {
		t.Fatalf("overlay of %d bytes", x.s.OverlayBytes())
	}
}

func (x *machine) freeze(t *rapid.T) {
	c, err := x.s.Freeze()
	if x.ckpt != nil {
		if core.KindOf(err) != core.Conflict {
			t.Fatalf("second freeze: %v", err)
		}
		return
	}
	if err != nil || c.Applied() != x.m.applied {
		t.Fatalf("freeze: %v", err)
	}
	x.ckpt, x.frozen = c, x.m.clone()
}

func (x *machine) write(t *rapid.T) {
	if x.ckpt == nil {
		return
	}
	if err := x.ckpt.Write(); err != nil {
		t.Fatalf("write: %v", err)
	}
	x.durable, x.ckpt = x.frozen, nil
}

func (x *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"update":  x.update,
		"update2": x.update,
		"update3": x.update,
		"freeze":  x.freeze,
		"write":   x.write,
		"checkpoint": func(t *rapid.T) {
			x.write(t)
			x.freeze(t)
			x.write(t)
		},
		"snapshot": func(t *rapid.T) {
			x.closeSnapshot()
			sn, err := x.s.Snapshot()
			if err != nil {
				t.Fatalf("snapshot: %v", err)
			}
			x.snap, x.snapM = sn, x.m.clone()
		},
		"reopen": func(t *rapid.T) {
			x.close(t)
			x.lose()
			x.open(t)
		},
		"crash": func(t *rapid.T) {
			clone := x.fs.CrashClone(vfs.CrashCloneCfg{})
			x.close(t)
			x.fs = clone
			x.lose()
			x.open(t)
		},
		"": x.check,
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newMachine(t)
		defer x.close(t)
		t.Repeat(x.actions())
	})
}
