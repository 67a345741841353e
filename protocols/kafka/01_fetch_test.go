package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// TestProduceAndFetchEveryVersion sends a batch in each codec through each version and
// gets the producer's bytes back, but for the first 16.
func TestProduceAndFetchEveryVersion(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 2, nil)
	c := f.dial()
	want := []string{"first", strings.Repeat("second ", 2000)}
	for codec := core.CodecNone; codec <= core.CodecZstd; codec++ {
		for version := int16(produceMin); version <= produceMax; version++ {
			if codec == core.CodecZstd && version < produceZstd {
				continue
			}
			sent := batch(t, codec, 1000, want...)
			p := c.produced(version, topic, 1, sent)
			if p.ErrorCode != codeNone {
				t.Fatalf("produce version %d codec %d: code %d", version, codec, p.ErrorCode)
			}
			for version := int16(fetchMin); version <= fetchMax; version++ {
				got := c.fetched(fetchOne(version, topic, 1, p.BaseOffset))
				if got.ErrorCode != codeNone || got.HighWatermark != p.BaseOffset+2 || got.LastStableOffset != got.HighWatermark {
					t.Fatalf("fetch version %d: %+v", version, got)
				}
				if got.AbortedTransactions != nil {
					t.Fatalf("fetch version %d: aborted transactions are not null", version)
				}
				if !slices.Equal(got.RecordBatches[core.BatchPatchLen:], sent[core.BatchPatchLen:]) {
					t.Fatalf("fetch version %d codec %d: other bytes than were sent", version, codec)
				}
				if from, vs := values(t, got.RecordBatches); from != p.BaseOffset || !slices.Equal(vs, want) {
					t.Fatalf("fetch version %d: from %d %q", version, from, vs)
				}
				if h, _ := core.ParseBatchHeader(got.RecordBatches); h.LeaderEpoch != 1 {
					t.Fatalf("leader epoch %d, want the term 1", h.LeaderEpoch)
				}
			}
		}
	}
}

// TestFetchLent fetches batches that the log lends, with small ones between them, in one
// answer: each has its own offset and epoch, and the producer's bytes.
func TestFetchLent(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 2, map[string]string{"max.message.bytes": "9000000"})
	c := f.dial()
	var want [2][]string
	for i := range 6 {
		size := 10 + i%3*400_000 // none, less and more than a step of the writer
		for p := range int32(2) {
			v := strings.Repeat(fmt.Sprint(i, p, "."), size)
			want[p] = append(want[p], v, "x")
			if got := c.produced(9, topic, p, batch(t, 0, 1000, v, "x")); got.ErrorCode != codeNone {
				t.Fatalf("code %d", got.ErrorCode)
			}
		}
	}
	f.log.SetCold(true)
	for _, version := range []int16{fetchMin, fetchMax} {
		req := fetchOne(version, topic, 0, 0)
		parts := &req.Topics[0].Partitions
		(*parts)[0].PartitionMaxBytes = 20 << 20
		*parts = append(*parts, (*parts)[0])
		(*parts)[1].Partition = 1
		resp := ask[*kmsg.FetchResponse](c, req)
		for i, p := range resp.Topics[0].Partitions {
			from, vs := values(t, p.RecordBatches)
			if h, _ := core.ParseBatchHeader(p.RecordBatches); from != 0 || h.LeaderEpoch != 1 || !slices.Equal(vs, want[i]) {
				t.Fatalf("version %d partition %d: %d values from %d, epoch %d", version, i, len(vs), from, h.LeaderEpoch)
			}
		}
	}
	waitFor(t, func() bool { return f.log.Lent() == 0 })
}

// TestFetchAnswers holds what a partition's answer says in each case.
func TestFetchAnswers(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	for i := range 3 {
		c.produced(9, topic, 0, batch(t, 0, 1000, fmt.Sprint(i, "a"), fmt.Sprint(i, "b")))
	}
	size := len(batch(t, 0, 1000, "0a", "0b"))
	for _, tc := range []struct {
		name   string
		change func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition)
		code   int16
		high   int64
		want   string
	}{
		{"all", func(*kmsg.FetchRequest, *kmsg.FetchRequestTopicPartition) {}, 0, 6, "0a 0b 1a 1b 2a 2b"},
		{"inside a batch", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 3 }, 0, 6, "1a 1b 2a 2b"},
		{"the end", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 6 }, 0, 6, ""},
		{"past the end", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 7 }, codeOffsetOutOfRange, -1, ""},
		{"below 0", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = -1 }, codeOffsetOutOfRange, -1, ""},
		{"first batch larger than the limits", func(r *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { r.MaxBytes, p.PartitionMaxBytes = 1, 1 }, 0, 6, "0a 0b"},
		{"two batches fit", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) {
			p.PartitionMaxBytes = int32(2*size + 1)
		}, 0, 6, "0a 0b 1a 1b"},
		{"no such partition", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = 1 }, codeUnknownTopicOrPartition, -1, ""},
		{"no such id", func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.Topics[0].TopicID = core.TopicID{1} }, codeUnknownTopicID, -1, ""},
		{"no such name", func(r *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { r.Version, r.Topics[0].Topic = 12, "x" }, codeUnknownTopicOrPartition, -1, ""},
		{"old epoch", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 0 }, codeFencedLeaderEpoch, -1, ""},
		{"new epoch", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 2 }, codeUnknownLeaderEpoch, -1, ""},
		{"right epoch", func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 1 }, 0, 6, "0a 0b 1a 1b 2a 2b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := fetchOne(fetchMax, topic, 0, 0)
			tc.change(req, &req.Topics[0].Partitions[0])
			got := c.fetched(req)
			if got.ErrorCode != tc.code || got.HighWatermark != tc.high || got.LastStableOffset != tc.high {
				t.Fatalf("code %d, high watermark %d, last stable %d; want code %d and %d", got.ErrorCode, got.HighWatermark, got.LastStableOffset, tc.code, tc.high)
			}
			if got.RecordBatches == nil {
				t.Fatal("records are null")
			}
			if _, vs := values(t, got.RecordBatches); strings.Join(vs, " ") != tc.want {
				t.Fatalf("%q, want %q", vs, tc.want)
			}
		})
	}
}

// TestFetchReadCommitted holds the other form of "no aborted transactions".
func TestFetchReadCommitted(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	req := fetchOne(fetchMax, topic, 0, 0)
	req.IsolationLevel = readCommitted
	if got := c.fetched(req); got.AbortedTransactions == nil || len(got.AbortedTransactions) != 0 {
		t.Fatalf("aborted transactions %v, want an empty array", got.AbortedTransactions)
	}
}

// TestFetchLostEntry calls a hole in the log an error of storage, not a missing topic.
func TestFetchLostEntry(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	c.produced(9, topic, 0, batch(t, 0, 1, "x"))
	f.log.Lose(f.log.Last())
	for _, version := range []int16{fetchTopicID - 1, fetchMax} {
		if got := c.fetched(fetchOne(version, topic, 0, 0)); got.ErrorCode != codeStorageError {
			t.Fatalf("version %d: code %d, want %d", version, got.ErrorCode, codeStorageError)
		}
	}
}
