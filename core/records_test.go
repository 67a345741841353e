package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordsRoundTrip(t *testing.T) {
	want := []Record{
		{Time: 1000, Key: []byte("k"), Value: []byte(strings.Repeat("value ", 1000))},
		{Time: 990, Value: []byte{}, Headers: []RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h"}, {Key: ""}}},
		{Time: 5000, Key: []byte{}},
	}
	for i := range want {
		want[i].Offset = Offset(i)
	}
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		t.Run(fmt.Sprint(codec), func(t *testing.T) {
			var b BatchBuilder
			for _, r := range want {
				b.Add(r.Time, r.Key, r.Value, r.Headers...)
			}
			batch, err := b.Build(nil, BatchOptions{Codec: codec, Producer: Nobody})
			if err != nil {
				t.Fatal(err)
			}
			h, _ := ParseBatchHeader(batch)
			if h.CRC != BatchCRC(batch) || h.TotalLen() != len(batch) || h.Codec() != codec || h.MaxTime != 5000 {
				t.Fatalf("header %+v of a batch of %d bytes", h, len(batch))
			}
			check(t, batch, want)
			for other := CodecNone; other <= CodecZstd; other++ {
				check(t, recode(t, batch, other, MaxInflated), want)
			}
		})
	}
}

// recode streams a batch into another codec.
func recode(t *testing.T, batch []byte, codec, limit int) []byte {
	t.Helper()
	h, _ := ParseBatchHeader(batch)
	r, err := Inflate(h.Codec(), batch[BatchHeaderLen:], MaxInflated)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := NewBatchWriter(h, codec, 0, limit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	again, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	h, _ = ParseBatchHeader(again)
	if h.CRC != BatchCRC(again) || h.TotalLen() != len(again) || h.Codec() != codec {
		t.Fatalf("header %+v of a batch of %d bytes", h, len(again))
	}
	return again
}

// TestBatchWriterStopsAtTheLimit takes no memory for a batch that cannot be stored.
func TestBatchWriterStopsAtTheLimit(t *testing.T) {
	w, err := NewBatchWriter(BatchHeader{}, CodecNone, 0, BatchHeaderLen+10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1)); !errors.Is(err, TooLarge) {
		t.Fatalf("%v, want too large", err)
	}
}

func check(t *testing.T, batch []byte, want []Record) {
	t.Helper()
	var got []Record
	for r, err := range Records(batch, MaxInflated) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestDecompressStopsAtTheLimit(t *testing.T) {
	zeros := make([]byte, 1<<20)
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		packed, err := Compress(codec, 0, nil, zeros)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decompress(codec, nil, packed, len(zeros)); err != nil || !bytes.Equal(got, zeros) {
			t.Errorf("codec %d: %d bytes, %v", codec, len(got), err)
		}
		if _, err := Decompress(codec, nil, packed, len(zeros)-1); !errors.Is(err, TooLarge) {
			t.Errorf("codec %d: %v, want too large", codec, err)
		}
		if codec == CodecNone {
			continue
		}
		if _, err := Decompress(codec, nil, packed[:len(packed)/2], len(zeros)); !errors.Is(err, Corrupt) {
			t.Errorf("codec %d, cut: %v, want corrupt", codec, err)
		}
	}
	if _, err := Decompress(5, nil, nil, 1); !errors.Is(err, Invalid) {
		t.Errorf("codec 5: %v, want invalid", err)
	}
}

// TestXerialSnappy reads what Java clients send: framed blocks.
func TestXerialSnappy(t *testing.T) {
	block, err := Compress(CodecSnappy, 0, nil, []byte("hello hello hello"))
	if err != nil {
		t.Fatal(err)
	}
	framed := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for range 2 {
		framed = append(append(framed, 0, 0, 0, byte(len(block))), block...)
	}
	got, err := Decompress(CodecSnappy, nil, framed, 100)
	if err != nil || string(got) != "hello hello hellohello hello hello" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := Decompress(CodecSnappy, nil, framed[:len(framed)-1], 100); !errors.Is(err, Corrupt) {
		t.Fatalf("cut: %v, want corrupt", err)
	}
	if _, err := Decompress(CodecSnappy, nil, framed, 20); !errors.Is(err, TooLarge) {
		t.Fatalf("limit between the blocks: %v, want too large", err)
	}
}

func FuzzRecords(f *testing.F) {
	for codec := CodecNone; codec <= CodecZstd; codec++ {
		var b BatchBuilder
		b.Add(1, []byte("key"), []byte("value"), RecordHeader{Key: "h", Value: []byte("v")})
		b.Add(2, nil, nil)
		batch, err := b.Build(nil, BatchOptions{Codec: codec, Producer: Nobody})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(batch)
	}
	f.Fuzz(func(t *testing.T, batch []byte) {
		const limit = 1 << 16
		n := 0
		for r, err := range Records(batch, limit) {
			if n += len(r.Key) + len(r.Value); n > limit && n > len(batch) {
				t.Fatalf("%d bytes of keys and values", n)
			}
			if err != nil && KindOf(err) != Corrupt && KindOf(err) != TooLarge && KindOf(err) != Invalid {
				t.Fatal(err)
			}
		}
	})
}

func TestFirstRecord(t *testing.T) {
	var bb BatchBuilder
	bb.Add(7, []byte("k"), []byte("v"), RecordHeader{"a", []byte("1")}, RecordHeader{"b", nil})
	bb.Add(9, nil, nil)
	batch, err := bb.Build(nil, BatchOptions{Producer: Nobody})
	if err != nil {
		t.Fatal(err)
	}
	var want []Record
	for r, err := range Records(batch, MaxInflated) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
	}
	got := Record{Headers: make([]RecordHeader, 5)}
	if err := FirstRecord(batch, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[0], got); diff != "" {
		t.Fatal(diff)
	}
	if n := testing.AllocsPerRun(100, func() { _ = FirstRecord(batch, &got) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for n := range batch[:len(batch)-1] {
		if n < BatchHeaderLen+10 && FirstRecord(batch[:n], &got) == nil {
			t.Errorf("%d bytes of a batch have a first record", n)
		}
	}
	zipped, err := bb.Build(nil, BatchOptions{Producer: Nobody, Codec: CodecGzip})
	if err != nil {
		t.Fatal(err)
	}
	if err := FirstRecord(zipped, &got); KindOf(err) != Corrupt {
		t.Errorf("of a compressed batch: %v", err)
	}
}

// TestRecordLen: a record's length is known before it is written, whatever its numbers.
func TestRecordLen(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 1 << 20, -1 << 34, math.MaxInt64, math.MinInt64} {
		if got, want := varintLen(v), len(binary.AppendVarint(nil, v)); got != want {
			t.Errorf("varintLen(%d) = %d, want %d", v, got, want)
		}
	}
	var b BatchBuilder
	b.Add(1<<40, nil, []byte{})
	b.Add(5, []byte("k"), make([]byte, 1<<14), RecordHeader{Key: "h"}, RecordHeader{"", []byte("v")})
	batch, err := b.Build([]byte("front"), BatchOptions{Producer: Nobody})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range Records(batch[len("front"):], MaxInflated) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 && (r.Time != 5 || len(r.Value) != 1<<14 || len(r.Headers) != 2) {
			t.Errorf("second record: time %d, %d bytes, headers %v", r.Time, len(r.Value), r.Headers)
		}
	}
	if n != 2 || string(batch[:5]) != "front" {
		t.Fatalf("%d records after %q, want 2", n, batch[:5])
	}
}
