package router_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"polylog/core"
	"polylog/router"
	"polylog/router/routertest"
)

func mustPublish(t testing.TB, r *router.Router, q core.QueueID, batch []byte) core.Offset {
	t.Helper()
	res := routertest.Publish(r, q, batch)
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	return res.Offset
}

// offsets reads from an offset on and returns the base offsets of what came.
func offsets(t testing.TB, r *router.Router, q core.QueueID, from core.Offset, o router.ReadOptions) []core.Offset {
	t.Helper()
	var dst router.Batches
	defer dst.Release()
	if _, err := r.Read(q, from, o, &dst); err != nil {
		t.Fatal(err)
	}
	found := []core.Offset{}
	for _, b := range dst.Items {
		found = append(found, b.Offset)
	}
	return found
}

func TestReadWholeBatches(t *testing.T) {
	for _, cold := range []bool{false, true} {
		r, log := routertest.Start(t, nil)
		log.SetCold(cold)
		q := routertest.Topic(t, r, "a", 1, nil).Partitions[0]
		b := routertest.Batch(t, 1, "x", "y", "z")
		for range 100 {
			mustPublish(t, r, q, b)
		}
		n := len(b)
		all := router.ReadOptions{MaxBytes: 1 << 30}
		if got := offsets(t, r, q, 0, all); len(got) != 100 || got[99] != 297 {
			t.Errorf("cold=%v: read %v", cold, got)
		}
		for name, c := range map[string]struct {
			from core.Offset
			o    router.ReadOptions
			want []core.Offset
		}{
			"inside a batch": {4, router.ReadOptions{MaxBytes: 2 * n}, []core.Offset{3, 6}},
			"not quite":      {3, router.ReadOptions{MaxBytes: 2*n - 1}, []core.Offset{3}},
			"too little":     {3, router.ReadOptions{MaxBytes: n - 1}, []core.Offset{}},
			"at least one":   {3, router.ReadOptions{MaxBytes: n - 1, AtLeastOne: true}, []core.Offset{3}},
			"nothing":        {3, router.ReadOptions{}, []core.Offset{}},
			"end":            {300, all, []core.Offset{}},
		} {
			if diff := cmp.Diff(c.want, offsets(t, r, q, c.from, c.o)); diff != "" {
				t.Errorf("cold=%v, %s: %s", cold, name, diff)
			}
		}
		var dst router.Batches
		for _, from := range []core.Offset{-1, 301} {
			head, err := r.Read(q, from, all, &dst)
			if !errors.Is(err, core.OutOfRange) || head.End != 300 {
				t.Errorf("read at %d: %+v, %v", from, head, err)
			}
		}
	}
}

func TestReadManyQueuesIntoOne(t *testing.T) {
	r, log := routertest.Start(t, nil)
	log.SetCold(true)
	topic := routertest.Topic(t, r, "a", 2, nil)
	want := [][]byte{routertest.Batch(t, 1, "x"), routertest.Batch(t, 2, "yy")}
	var dst router.Batches
	for i, q := range topic.Partitions {
		mustPublish(t, r, q, want[i])
		if _, err := r.Read(q, 0, router.ReadOptions{MaxBytes: 1000}, &dst); err != nil {
			t.Fatal(err)
		}
	}
	for i, b := range dst.Items {
		if diff := cmp.Diff(want[i], b.Data); diff != "" {
			t.Error(diff)
		}
	}
	if dst.Bytes != len(want[0])+len(want[1]) {
		t.Errorf("%d bytes", dst.Bytes)
	}
	dst.Release()
	if len(dst.Items) != 0 || dst.Bytes != 0 {
		t.Error("Release leaves something")
	}
}

func TestReadDamagedBatch(t *testing.T) {
	r, log := routertest.Start(t, nil)
	log.SetCold(true)
	q := routertest.Topic(t, r, "a", 1, nil).Partitions[0] // entry 1
	for range 3 {
		mustPublish(t, r, q, routertest.Batch(t, 1, "x"))
	}
	log.Damage(3, 90) // offset 1
	var dst router.Batches
	defer dst.Release()
	o := router.ReadOptions{MaxBytes: 1 << 20}
	if _, err := r.Read(q, 0, o, &dst); err != nil || len(dst.Items) != 1 {
		t.Errorf("what is good before it: %d batches, %v", len(dst.Items), err)
	}
	if _, err := r.Read(q, 1, o, &dst); !errors.Is(err, core.Corrupt) {
		t.Errorf("the damaged batch: %v", err)
	}
	if _, err := r.Read(q, 2, o, &dst); err != nil {
		t.Errorf("what is good behind it: %v", err)
	}
}

// TestReadLent has large batches of a cold log lent, small ones and warm ones read.
func TestReadLent(t *testing.T) {
	r, log := routertest.Start(t, nil)
	q := routertest.Topic(t, r, "a", 1, nil).Partitions[0] // entry 1
	large, small := routertest.Batch(t, 1, strings.Repeat("x", 100_000)), routertest.Batch(t, 1, "x")
	for _, b := range [][]byte{large, small, large} {
		mustPublish(t, r, q, b)
	}
	lend := router.ReadOptions{MaxBytes: 1 << 20, Lend: true}
	for name, c := range map[string]struct {
		cold bool
		o    router.ReadOptions
		lent int
	}{
		"warm": {false, lend, 0}, "not asked for": {true, router.ReadOptions{MaxBytes: 1 << 20}, 0}, "cold": {true, lend, 2},
	} {
		log.SetCold(c.cold)
		var dst router.Batches
		if _, err := r.Read(q, 0, c.o, &dst); err != nil {
			t.Fatal(err)
		}
		if log.Lent() != c.lent || dst.Bytes != 2*len(large)+len(small) || dst.Held != dst.Bytes-c.lent*len(large) {
			t.Errorf("%s: %d lent, %d bytes, %d held", name, log.Lent(), dst.Bytes, dst.Held)
		}
		for i, want := range [][]byte{large, small, large} {
			b := &dst.Items[i]
			got := b.Data
			if b.Extent != nil {
				var sent bytes.Buffer
				if _, err := b.Extent.SendTo(&sent, 0, int64(b.Len())); err != nil {
					t.Fatal(err)
				}
				got = sent.Bytes()
			}
			if b.Offset != core.Offset(i) || b.Len() != len(want) || !bytes.Equal(got, want) {
				t.Errorf("%s: batch %d at %d has %d bytes, %d came", name, i, b.Offset, b.Len(), len(got))
			}
		}
		dst.Release()
		if log.Lent() != 0 || dst.Held != 0 {
			t.Errorf("%s: %d still lent", name, log.Lent())
		}
	}
	log.SetCold(true)
	var dst router.Batches
	defer dst.Release()
	where := bytes.Index(log.Data(2), large[core.BatchPatchLen:]) - core.BatchPatchLen
	for _, at := range []int{9, core.BatchPatchLen} { // its length, its magic
		log.Damage(2, where+at)
		if _, err := r.Read(q, 0, lend, &dst); !errors.Is(err, core.Corrupt) {
			t.Errorf("byte %d of a lent batch is damaged: %v", at, err)
		}
		log.Damage(2, where+at)
	}
	if _, err := r.Read(q, 0, lend, &dst); err != nil {
		t.Error(err)
	}
}

func TestPublishRefusals(t *testing.T) {
	r, log := routertest.Start(t, func(o *router.Options) { o.Authorizer = denyTopic("secret") })
	q := routertest.Topic(t, r, "a", 1, map[string]string{"max.message.bytes": "100"}).Partitions[0]
	good := routertest.Batch(t, 1, "x")
	check := func(name string, want core.Kind, q core.QueueID, batch []byte) {
		t.Helper()
		res := routertest.Publish(r, q, batch)
		if core.KindOf(res.Err) != want || (res.Err != nil && res.Offset != -1) {
			t.Errorf("%s: %+v, want kind %v", name, res, want)
		}
	}
	check("good", core.OK, q, good)
	check("no queue", core.NotFound, 77, good)
	check("large", core.TooLarge, q, routertest.Batch(t, 1, "x", "y", "z", "a long one that exceeds the limit"))
	check("cut", core.Invalid, q, good[:len(good)-1])
	check("denied", core.Denied, routertest.Topic(t, r, "secret", 1, nil).Partitions[0], good)
	log.SetLeader(false)
	check("no leader", core.NotLeader, q, good)
}

// denyTopic denies writing to one topic.
type denyTopic string

func (d denyTopic) Authorize(_ router.Principal, op router.Operation, res router.Resource) error {
	if op == router.OpWrite && res.Name.Name == string(d) {
		return core.E(core.Denied, "not for you")
	}
	return nil
}

func TestLogAppendTime(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(5000))
	r, log := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	log.SetCold(true) // which checks the CRC
	q := routertest.Topic(t, r, "a", 1, map[string]string{"message.timestamp.type": "LogAppendTime"}).Partitions[0]
	if res := routertest.Publish(r, q, routertest.Batch(t, 1, "x")); res.AppendTime != 5000 {
		t.Errorf("%+v", res)
	}
	if off, ts, ok, err := r.OffsetByTime(t.Context(), q, 4000); off != 0 || ts != 5000 || !ok || err != nil {
		t.Errorf("OffsetByTime = %d, %d, %v, %v", off, ts, ok, err)
	}
	if got := offsets(t, r, q, 0, router.ReadOptions{MaxBytes: 1000}); len(got) != 1 {
		t.Errorf("read %v", got)
	}
}

func TestIdempotentPublish(t *testing.T) {
	clock := routertest.NewClock(time.UnixMilli(5000))
	r, log := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	q := routertest.Topic(t, r, "a", 1, nil).Partitions[0]
	id, err := r.NewProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if next, err := r.NewProducerID(t.Context()); err != nil || next != id+1 {
		t.Errorf("second producer id is %d, %v", next, err)
	}
	send := func(sequence int32) router.PublishResult {
		var bb core.BatchBuilder
		bb.Add(1, nil, nil)
		b, err := bb.Build(nil, core.BatchOptions{Producer: core.Producer{ID: id, Sequence: sequence}})
		if err != nil {
			t.Fatal(err)
		}
		return routertest.Publish(r, q, b)
	}
	for i, c := range []struct {
		sequence int32
		offset   core.Offset
		kind     core.Kind
	}{{0, 0, core.OK}, {1, 1, core.OK}, {0, 0, core.OK}, {3, -1, core.OutOfSequence}, {2, 2, core.OK}} {
		if res := send(c.sequence); res.Offset != c.offset || core.KindOf(res.Err) != c.kind {
			t.Errorf("send %d: %+v", i, res)
		}
	}
	want := map[core.QueueID][]router.ProducerState{q: {{ID: id, LastSequence: 2, LastOffset: 2, Time: 5000}}}
	for range 2 { // from memory, then from the store
		if ps, err := r.Producers([]core.QueueID{q, q + 1}, 0); core.KindOf(err) != core.TooLarge {
			t.Error(ps, err)
		}
		got, err := r.Producers([]core.QueueID{q, q + 1}, 1)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		for range 3 {
			if err := log.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	r, _ := routertest.Start(t, func(o *router.Options) { o.Registerer = reg })
	q := routertest.Topic(t, r, "a", 2, nil).Partitions[0]
	b := routertest.Batch(t, 1, "x", "y")
	mustPublish(t, r, q, b)
	offsets(t, r, q, 0, router.ReadOptions{MaxBytes: 1000})
	offsets(t, r, q, 0, router.ReadOptions{MaxBytes: 1000})
	routertest.Publish(r, q, nil)

	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"polylog_messages_produced_total": 2,
		"polylog_bytes_produced_total":    float64(len(b)),
		"polylog_messages_consumed_total": 4,
		"polylog_bytes_consumed_total":    2 * float64(len(b)),
		"polylog_publish_errors_total":    1,
		"polylog_publish_seconds":         1,
		"polylog_read_seconds":            2,
		"polylog_topics":                  1,
		"polylog_partitions":              2,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
