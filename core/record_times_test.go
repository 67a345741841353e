package core

import (
	"fmt"
	"runtime"
	"testing"
)

func times(t *testing.T, batch []byte, limit int) (got []RecordTime, err error) {
	t.Helper()
	for r, err := range RecordTimes(batch, limit) {
		if err != nil {
			return got, err
		}
		got = append(got, r)
	}
	return got, nil
}

// TestRecordTimes says of each record what Records says, in little memory.
func TestRecordTimes(t *testing.T) {
	const size = 20 << 20
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		t.Run(fmt.Sprint(codec), func(t *testing.T) {
			var b BatchBuilder
			b.Add(1000, nil, make([]byte, size))
			b.Add(990, []byte("k"), nil)
			b.Add(5000, nil, []byte("v"), RecordHeader{Key: "h"})
			batch, err := b.Build(nil, BatchOptions{Codec: codec, Producer: Nobody})
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprint([]RecordTime{{0, 1000}, {1, 990}, {2, 5000}})
			if _, err := times(t, batch, MaxInflated); err != nil { // fills the pools
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := times(t, batch, MaxInflated)
			runtime.ReadMemStats(&after)
			if fmt.Sprint(got) != want || err != nil {
				t.Fatalf("%v, %v, want %s", got, err, want)
			}
			if taken := after.TotalAlloc - before.TotalAlloc; codec != CodecSnappy && taken > size/2 {
				t.Errorf("%d bytes for the times of %d bytes of records", taken, size)
			}
			if _, err := times(t, batch, size/2); KindOf(err) != TooLarge {
				t.Errorf("beyond the limit: %v", err)
			}
			if _, err := times(t, batch[:len(batch)-1], MaxInflated); codec == CodecNone && KindOf(err) != Corrupt {
				t.Errorf("cut off: %v", err)
			}
			SetLogAppendTime(batch, 7000)
			if got, err := times(t, batch, MaxInflated); err != nil || got[1].Time != 7000 {
				t.Errorf("of the log: %v, %v", got, err)
			}
		})
	}
	if _, err := times(t, nil, MaxInflated); KindOf(err) != Corrupt {
		t.Errorf("no batch: %v", err)
	}
}

// FuzzRecordTimes agrees with Records wherever that finds nothing wrong.
func FuzzRecordTimes(f *testing.F) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		var b BatchBuilder
		b.Add(1, []byte("k"), []byte("v"), RecordHeader{Key: "h"})
		b.Add(-7, nil, nil)
		batch, err := b.Build(nil, BatchOptions{Codec: codec, Producer: Nobody})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(batch)
	}
	f.Fuzz(func(t *testing.T, batch []byte) {
		got, _ := times(t, batch, 1<<20)
		i := 0
		for want, err := range Records(batch, 1<<20) {
			if err != nil {
				return
			}
			if i >= len(got) || got[i] != (RecordTime{want.Offset, want.Time}) {
				t.Fatalf("record %d at %d, %d; times are %v", i, want.Offset, want.Time, got)
			}
			i++
		}
	})
}
