package core

import (
	"bytes"
	"testing"
)

func TestBatchHeaderRoundTrip(t *testing.T) {
	want := BatchHeader{
		BaseOffset: 1, Length: BatchHeaderLen - batchLengthEnd, LeaderEpoch: 3, Magic: 2, CRC: 4,
		Attributes: 4 | AttrTransactional, LastOffsetDelta: 5, BaseTime: 6, MaxTime: 7,
		ProducerID: 8, ProducerEpoch: 9, BaseSequence: 10, Count: 6,
	}
	b := want.AppendTo(nil)
	got, ok := ParseBatchHeader(b)
	if !ok || got != want || got.TotalLen() != len(b) {
		t.Fatalf("got %+v of %d bytes, want %+v", got, len(b), want)
	}
	if got.Codec() != 4 || !got.Transactional() || got.Control() || !got.HasProducer() {
		t.Fatalf("attributes of %+v", got)
	}
	if _, ok := ParseBatchHeader(b[:BatchHeaderLen-1]); ok {
		t.Fatal("a short header was accepted")
	}
}

func TestSequencesWrap(t *testing.T) {
	for _, c := range []struct{ seq, n, want int32 }{
		{0, 5, 5},
		{2147483647, 1, 0},
		{2147483645, 4, 1},
	} {
		if got := AddSequence(c.seq, c.n); got != c.want {
			t.Errorf("%d+%d = %d, want %d", c.seq, c.n, got, c.want)
		}
	}
}

func TestPatchAndAppendTime(t *testing.T) {
	h := BatchHeader{Magic: 2, Count: 1, ProducerID: NoProducer, Length: BatchHeaderLen - batchLengthEnd}
	b := h.AppendTo(nil)
	crc := BatchCRC(b)
	copy(b[:8], bytes.Repeat([]byte{9}, 8))
	copy(b[12:BatchPatchLen], []byte{1, 2, 3, 4})
	if BatchCRC(b) != crc {
		t.Fatal("the bytes that we patch must lie outside the CRC")
	}
	SetLogAppendTime(b, 99)
	got, _ := ParseBatchHeader(b)
	if got.MaxTime != 99 || got.Attributes&AttrLogAppendTime == 0 || got.CRC != BatchCRC(b) || got.CRC == crc {
		t.Fatalf("%+v", got)
	}
}
