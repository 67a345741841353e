package router

import (
	"bytes"
	"reflect"
	"testing"

	"polylog/core"
	"polylog/core/wire"
	"polylog/router/dispatch"
)

// FuzzConsumeMessages reads arbitrary bytes as messages of both directions: what can be read
// must be the same after it was written and read again.
func FuzzConsumeMessages(f *testing.F) {
	receipts := []Receipt{{5, 1 << 41}, {4, 7}}
	for _, m := range []toHub{
		{kind: hubAttach, consumer: 3, queue: 9, group: "g", attach: attachSpec{priority: -2, prefetch: 5, credit: dispatch.Unlimited, leaseMS: 7, countLost: true}},
		{kind: hubAttach, consumer: 4, queue: 9, group: "g", attach: attachSpec{credit: 1, getter: true, fence: 1 << 40}},
		{kind: hubGrant, consumer: 3, n: 8},
		{kind: hubCancel, consumer: 3},
		{kind: hubDetach, consumer: 3},
		{kind: hubSettle, request: 1, queue: 9, outcome: Fail, n: 100, receipts: receipts},
		{kind: hubExtend, request: 1, queue: 9, n: 100, receipts: receipts},
		{kind: hubHold, request: 1, queue: 9, receipts: receipts},
		{kind: hubPurge, request: 1, queue: 9},
		{kind: hubCount, request: 1, queue: 9},
	} {
		f.Add(m.append(nil))
	}
	for _, m := range []fromHub{
		{kind: hubAttached, consumer: 3},
		{kind: hubEnded, consumer: 3, err: core.E(core.NotFound, "gone")},
		{kind: hubDeliver, consumer: 3, deliveries: []handed{{Receipt{5, 6}, 2, true}, {Receipt{6, 7}, 0, false}}},
		{kind: hubAnswer, request: 1, kinds: []core.Kind{core.OK, core.Conflict}, counts: QueueCounts{1, 2, 3, 4}},
	} {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		if m, err := readToHub(&r); err == nil {
			r := wire.NewReader(m.append(nil))
			if again, err := readToHub(&r); err != nil || r.Len() > 0 || !reflect.DeepEqual(again, m) {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
		r = wire.NewReader(b)
		if m, err := readFromHub(&r); err == nil {
			r := wire.NewReader(m.append(nil))
			if again, err := readFromHub(&r); err != nil || r.Len() > 0 || !bytes.Equal(again.append(nil), m.append(nil)) {
				t.Fatalf("%+v became %+v, %v", m, again, err)
			}
		}
	})
}
