package kafka

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// patch changes a batch and makes its CRC right again.
func patch(b []byte, fn func(b []byte)) []byte {
	fn(b)
	binary.BigEndian.PutUint32(b[17:], core.BatchCRC(b))
	return b
}

// TestProduceValidation holds Kafka's code for each way in which a batch can be wrong.
func TestProduceValidation(t *testing.T) {
	be := binary.BigEndian
	f := start(t, nil)
	now := f.server.now()
	plain := f.topic("plain", 1, map[string]string{"max.message.bytes": "2000", "message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"})
	compacted := f.topic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	stamped := f.topic("stamped", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	good := func() []byte { return batch(t, 0, now, "one", "two") }
	keyless := func(codec int) []byte {
		return batchOf(t, codec, core.Nobody, func(b *core.BatchBuilder) {
			b.Add(now, []byte("k"), nil)
			b.Add(now, nil, []byte("v"))
			b.Add(now, nil, []byte("v"))
		})
	}
	twoTimes := func(codec int, second int64) []byte {
		return batchOf(t, codec, core.Nobody, func(b *core.BatchBuilder) { b.Add(now, nil, nil); b.Add(second, nil, nil) })
	}
	claim := func(b []byte, maxTime int64) []byte {
		return patch(b, func(b []byte) { be.PutUint64(b[35:], uint64(maxTime)) })
	}
	deflated := func(codec int, records []byte) []byte {
		b, err := core.Compress(codec, 0, nil, records)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	oneRecord := slices.Clip(batch(t, 0, now, "x")[core.BatchHeaderLen:])
	packed := func(codec int, count int32, payload []byte) []byte { return packedBatch(codec, count, now, payload) }
	for _, tc := range []struct {
		name    string
		topic   string
		version int16
		records []byte
		want    int16
		errors  []int32 // record errors
	}{
		{"good", "plain", 9, good(), 0, nil},
		{"null records", "plain", 9, nil, codeInvalidRecord, nil},
		{"empty records", "plain", 9, []byte{}, codeInvalidRecord, nil},
		{"header cut off", "plain", 9, good()[:40], codeCorruptMessage, nil},
		{"records cut off", "plain", 9, good()[:70], codeInvalidRecord, nil},
		{"two batches", "plain", 9, append(good(), good()...), codeInvalidRecord, nil},
		{"length below the header's", "plain", 9, patch(good(), func(b []byte) { be.PutUint32(b[8:], 40) }), codeCorruptMessage, nil},
		{"negative length", "plain", 9, patch(good(), func(b []byte) { be.PutUint32(b[8:], 1<<31) }), codeCorruptMessage, nil},
		{"magic 1", "plain", 9, patch(good(), func(b []byte) { b[16] = 1 }), codeInvalidRecord, nil},
		{"wrong CRC", "plain", 9, func() []byte { b := good(); b[len(b)-1] ^= 1; return b }(), codeCorruptMessage, nil},
		{"base offset", "plain", 9, patch(good(), func(b []byte) { b[7] = 1 }), codeInvalidRecord, nil},
		{"count 0", "plain", 9, patch(good(), func(b []byte) { be.PutUint32(b[57:], 0); be.PutUint32(b[23:], 0xffffffff) }), codeInvalidRecord, nil},
		{"count against delta", "plain", 9, patch(good(), func(b []byte) { be.PutUint32(b[57:], 3) }), codeInvalidRecord, nil},
		{"count against records", "plain", 9, patch(good(), func(b []byte) { be.PutUint32(b[57:], 3); be.PutUint32(b[23:], 2) }), codeInvalidRecord, nil},
		{"fewer than the records", "plain", 9, patch(good(), func(b []byte) { be.PutUint32(b[57:], 1); be.PutUint32(b[23:], 0) }), codeInvalidRecord, nil},
		{"record length", "plain", 9, patch(good(), func(b []byte) { b[61]++ }), codeInvalidRecord, nil},
		{"record's offset delta", "plain", 9, patch(good(), func(b []byte) { b[64] = 4 }), codeInvalidRecord, nil},
		{"record's key length", "plain", 9, patch(good(), func(b []byte) { b[65] = 3 }), codeInvalidRecord, nil},
		{"control", "plain", 9, patch(good(), func(b []byte) { b[22] |= core.AttrControl }), codeInvalidRecord, nil},
		{"transactional", "plain", 9, patch(good(), func(b []byte) { b[22] |= core.AttrTransactional }), codeInvalidTxnState, nil},
		{"codec 5", "plain", 9, patch(good(), func(b []byte) { b[22] |= 5 }), codeUnsupportedCompressionType, nil},
		{"zstd before version 7", "plain", 6, batch(t, core.CodecZstd, now, "x"), codeUnsupportedCompressionType, nil},
		{"zstd", "plain", 7, batch(t, core.CodecZstd, now, "x"), 0, nil},
		{"producer without sequence", "plain", 9, patch(good(), func(b []byte) { be.PutUint64(b[43:], 5) }), codeInvalidRecord, nil},
		{"larger than max.message.bytes", "plain", 9, batch(t, 0, now, string(make([]byte, 2000))), codeMessageTooLarge, nil},
		{"larger only when inflated", "plain", 9, batch(t, core.CodecGzip, now, string(make([]byte, 2000))), 0, nil},
		{"time too early", "plain", 9, batch(t, 0, now-60_000, "x"), codeInvalidTimestamp, []int32{0}},
		{"time too early, compressed", "plain", 9, batch(t, core.CodecLZ4, now-60_000, "x"), codeInvalidTimestamp, []int32{0}},
		{"one time too early", "plain", 9, batchOf(t, core.CodecZstd, core.Nobody, func(b *core.BatchBuilder) { b.Add(now, nil, nil); b.Add(now-60_000, nil, nil) }), codeInvalidTimestamp, []int32{1}},
		{"time too late", "plain", 9, batch(t, 0, now+60_000, "x"), codeInvalidTimestamp, []int32{0}},
		{"one time too late, header silent", "plain", 9, claim(twoTimes(core.CodecNone, now+60_000), -1), codeInvalidTimestamp, []int32{1}},
		{"one time too late, header lies, compressed", "plain", 9, claim(twoTimes(core.CodecGzip, now+60_000), now), codeInvalidTimestamp, []int32{1}},
		{"only the header too late", "plain", 9, claim(good(), math.MaxInt64), 0, nil},
		{"delete horizon", "plain", 9, patch(good(), func(b []byte) { b[22] |= 0x40 }), codeInvalidRecord, nil},
		{"unknown attributes", "plain", 9, patch(good(), func(b []byte) { b[21] |= 0x80 }), codeInvalidRecord, nil},
		{"what the broker alone says", "plain", 9, patch(good(), func(b []byte) { b[21] |= core.AttrVouched >> 8 }), codeInvalidRecord, nil},
		{"no gzip", "plain", 9, packed(core.CodecGzip, 1, []byte("this is no gzip at all")), codeCorruptMessage, nil},
		{"no snappy", "plain", 9, packed(core.CodecSnappy, 1, []byte("\xff\xff\xff")), codeCorruptMessage, nil},
		{"no lz4", "plain", 9, packed(core.CodecLZ4, 1, []byte("this is no lz4 at all")), codeCorruptMessage, nil},
		{"no zstd", "plain", 9, packed(core.CodecZstd, 1, []byte("this is no zstd at all")), codeCorruptMessage, nil},
		{"gzip cut off", "plain", 9, packed(core.CodecGzip, 1, deflated(core.CodecGzip, oneRecord)[:20]), codeCorruptMessage, nil},
		{"compressed, no records", "plain", 9, packed(core.CodecZstd, 1, deflated(core.CodecZstd, nil)), codeInvalidRecord, nil},
		{"compressed, as many as it says", "plain", 9, packed(core.CodecLZ4, 1, deflated(core.CodecLZ4, oneRecord)), 0, nil},
		{"compressed, fewer than it says", "plain", 9, packed(core.CodecLZ4, 1_000_000, deflated(core.CodecLZ4, oneRecord)), codeInvalidRecord, nil},
		{"compressed, 1 of 2147483647", "plain", 9, packed(core.CodecGzip, math.MaxInt32, deflated(core.CodecGzip, oneRecord)), codeInvalidRecord, nil},
		{"compressed, more than it says", "plain", 9, packed(core.CodecSnappy, 1, deflated(core.CodecSnappy, append(oneRecord, oneRecord...))), codeInvalidRecord, nil},
		{"compressed, offset delta", "plain", 9, packed(core.CodecZstd, 2, deflated(core.CodecZstd, append(oneRecord, oneRecord...))), codeInvalidRecord, nil},
		{"no time", "plain", 9, batch(t, 0, -1, "x"), 0, nil},
		{"any time where the broker stamps", "stamped", 9, batch(t, 0, 5, "x"), 0, nil},
		{"compacted, keyless", "compacted", 9, keyless(core.CodecNone), codeInvalidRecord, []int32{1, 2}},
		{"compacted, keyless and compressed", "compacted", 9, keyless(core.CodecSnappy), codeInvalidRecord, []int32{1, 2}},
		{"compacted, damaged", "compacted", 9, patch(batch(t, core.CodecGzip, now, "x"), func(b []byte) { b[61] ^= 0xff }), codeCorruptMessage, nil},
		{"no such topic", "none", 9, good(), codeUnknownTopicOrPartition, nil},
		{"no such topic id", "none", 13, good(), codeUnknownTopicID, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topic := map[string]*kmsg.ProduceRequestTopic{
				"plain":     {Topic: "plain", TopicID: plain.ID},
				"compacted": {Topic: "compacted", TopicID: compacted.ID},
				"stamped":   {Topic: "stamped", TopicID: stamped.ID},
				"none":      {Topic: "none"},
			}[tc.topic]
			topic.Partitions = []kmsg.ProduceRequestTopicPartition{{Records: tc.records}}
			req := kmsg.NewPtrProduceRequest()
			req.Version, req.Acks = tc.version, -1
			req.Topics = []kmsg.ProduceRequestTopic{*topic}
			got := ask[*kmsg.ProduceResponse](f.dial(), req).Topics[0].Partitions[0]
			if got.ErrorCode != tc.want {
				t.Fatalf("code %d, want %d", got.ErrorCode, tc.want)
			}
			if ok := got.BaseOffset >= 0; ok != (tc.want == 0) {
				t.Fatalf("base offset %d", got.BaseOffset)
			}
			var at []int32
			for _, r := range got.ErrorRecords {
				at = append(at, r.RelativeOffset)
			}
			if diff := cmp.Diff(tc.errors, at); diff != "" {
				t.Fatal(diff)
			}
			if tc.want != 0 && tc.topic != "none" && tc.version >= 8 && (got.ErrorMessage == nil || *got.ErrorMessage == "") {
				t.Fatal("no message")
			}
		})
	}
}

// TestProduceRefused covers what is wrong with a request as a whole.
func TestProduceRefused(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	for version := range int16(produceMin) {
		req := produceOne(version, topic, 0, batch(t, 0, 1, "x"))
		if got := ask[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0].ErrorCode; got != codeUnsupportedVersion {
			t.Errorf("version %d: code %d, want %d", version, got, codeUnsupportedVersion)
		}
	}
	req := produceOne(9, topic, 0, batch(t, 0, 1, "x"))
	req.Acks = 2
	if got := ask[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0].ErrorCode; got != codeInvalidRequiredAcks {
		t.Errorf("acks 2: code %d, want %d", got, codeInvalidRequiredAcks)
	}
	for _, tc := range []struct {
		kind core.Kind
		want int16
	}{
		{core.Internal, codeUnknownServerError},
		{core.Unavailable, codeNotLeaderOrFollower},
		{core.NotLeader, codeNotLeaderOrFollower},
		{core.Uncertain, codeRequestTimedOut},
		{core.Denied, codeTopicAuthorizationFailed},
		{core.Fenced, codeInvalidProducerEpoch},
		{core.OutOfSequence, codeOutOfOrderSequence},
		{core.DuplicateSeq, codeOutOfOrderSequence},
		{core.UnknownProducer, codeOutOfOrderSequence},
		{core.TooLarge, codeMessageTooLarge},
		{core.Invalid, codeInvalidRecord},
		{core.Closed, codeNotLeaderOrFollower},
	} {
		f.log.Refuse(core.E(tc.kind, "refused"))
		if got := c.produced(9, topic, 0, batch(t, 0, 1, "x")).ErrorCode; got != tc.want {
			t.Errorf("%s: code %d, want %d", tc.kind.Error(), got, tc.want)
		}
	}
}

// TestProduceWithoutAcks sends no answer, and hangs up on an error.
func TestProduceWithoutAcks(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	req := produceOne(9, topic, 0, batch(t, 0, 1, "x"))
	req.Acks = 0
	c.send(req)
	c.send(req)
	if got := c.fetched(fetchOne(fetchMax, topic, 0, 0)); got.HighWatermark != 2 {
		t.Fatalf("high watermark %d, want 2", got.HighWatermark)
	}
	req.Topics[0].Partitions[0].Partition = 9
	c.send(req)
	c.closed()
}

// TestProducePipeline answers in the order of the requests, however many are in flight,
// and lets no other request overtake them.
func TestProducePipeline(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	const n = 200
	go func() {
		for i := range n {
			if _, err := c.nc.Write(frame(produceOne(9, topic, 0, batch(t, 0, 1, "x")), int32(i))); err != nil {
				return
			}
		}
		_, _ = c.nc.Write(frame(fetchOne(9, topic, 0, 0), n))
	}()
	for i := range int32(n) {
		b := c.read()
		if got := int32(binary.BigEndian.Uint32(b)); got != i {
			t.Fatalf("answer to %d, want %d", got, i)
		}
	}
	c.correlation = n
	if got := answer[*kmsg.FetchResponse](c, fetchOne(9, topic, 0, 0)); got.Topics[0].Partitions[0].HighWatermark != n {
		t.Fatalf("high watermark %d, want %d", got.Topics[0].Partitions[0].HighWatermark, n)
	}
}

// TestIdempotentProducer holds redpanda#3039 and Kafka's rules beside it.
func TestIdempotentProducer(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version = 5
	who := ask[*kmsg.InitProducerIDResponse](c, init)
	if who.ErrorCode != 0 || who.ProducerID < 0 || who.ProducerEpoch != 0 {
		t.Fatalf("%+v", who)
	}
	other := ask[*kmsg.InitProducerIDResponse](c, init)
	if other.ProducerID == who.ProducerID {
		t.Fatal("one id for two producers")
	}
	send := func(epoch int16, seq int32, n int) kmsg.ProduceResponseTopicPartition {
		b := batchOf(t, 0, core.Producer{ID: who.ProducerID, Epoch: epoch, Sequence: seq}, func(b *core.BatchBuilder) {
			for range n {
				b.Add(1, nil, []byte("v"))
			}
		})
		return c.produced(9, topic, 0, b)
	}
	for _, tc := range []struct {
		name   string
		epoch  int16
		seq    int32
		n      int
		code   int16
		offset int64
	}{
		{"first", 0, 0, 2, 0, 0},
		{"next", 0, 2, 3, 0, 2},
		{"sent again", 0, 2, 3, 0, 2},
		{"the first again", 0, 0, 2, 0, 0},
		{"gap", 0, 6, 1, codeOutOfOrderSequence, -1},
		{"goes on", 0, 5, 1, 0, 5},
		{"new epoch not from 0", 1, 6, 1, codeOutOfOrderSequence, -1},
		{"new epoch", 1, 0, 1, 0, 6},
		{"old epoch", 0, 6, 1, codeInvalidProducerEpoch, -1},
	} {
		if got := send(tc.epoch, tc.seq, tc.n); got.ErrorCode != tc.code || got.BaseOffset != tc.offset {
			t.Fatalf("%s: code %d at %d, want %d at %d", tc.name, got.ErrorCode, got.BaseOffset, tc.code, tc.offset)
		}
	}
	// redpanda#22670: a producer that nothing is known of may go on anywhere.
	who = other
	if got := send(0, 7, 1); got.ErrorCode != 0 {
		t.Fatalf("unknown producer: code %d", got.ErrorCode)
	}
	init.TransactionalID = new("txn")
	if got := ask[*kmsg.InitProducerIDResponse](c, init); got.ErrorCode != codeUnsupportedVersion {
		t.Fatalf("transactional id: code %d", got.ErrorCode)
	}
}

// TestProduceRecompresses stores batches in the topic's codec where it names one.
func TestProduceRecompresses(t *testing.T) {
	f := start(t, nil)
	c := f.dial()
	for name, want := range map[string]int{"uncompressed": core.CodecNone, "gzip": core.CodecGzip, "snappy": core.CodecSnappy, "lz4": core.CodecLZ4, "zstd": core.CodecZstd} {
		topic := f.topic(name, 1, map[string]string{"compression.type": name})
		for codec := core.CodecNone; codec <= core.CodecZstd; codec++ {
			if p := c.produced(9, topic, 0, batch(t, codec, 1, "a", "b")); p.ErrorCode != 0 {
				t.Fatalf("code %d", p.ErrorCode)
			}
		}
		got := c.fetched(fetchOne(fetchMax, topic, 0, 0))
		if h, _ := core.ParseBatchHeader(got.RecordBatches); h.Codec() != want {
			t.Fatalf("%s: stored in codec %d", name, h.Codec())
		}
		if _, vs := values(t, got.RecordBatches); len(vs) != 10 {
			t.Fatalf("%s: %q", name, vs)
		}
	}
}

// TestLogAppendTime stamps records with the broker's clock.
func TestLogAppendTime(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	c := f.dial()
	before := f.server.now()
	p := c.produced(9, topic, 0, batch(t, core.CodecGzip, 5, "a"))
	if p.LogAppendTime < before || p.LogAppendTime > f.server.now() {
		t.Fatalf("append time %d", p.LogAppendTime)
	}
	got := c.fetched(fetchOne(fetchMax, topic, 0, 0))
	h, _ := core.ParseBatchHeader(got.RecordBatches)
	if h.MaxTime != p.LogAppendTime || h.Attributes&core.AttrLogAppendTime == 0 || h.CRC != core.BatchCRC(got.RecordBatches) {
		t.Fatalf("%+v", h)
	}
}

// packedBatch is a batch around payload, whatever that is.
func packedBatch(codec int, count int32, ms int64, payload []byte) []byte {
	h := core.BatchHeader{
		Magic: 2, Attributes: int16(codec), Count: count, LastOffsetDelta: count - 1, Length: int32(len(payload)) + 49,
		ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, BaseTime: ms, MaxTime: ms,
	}
	return patch(append(h.AppendTo(nil), payload...), func([]byte) {})
}

// TestHeaderTimeIsTrue stores the greatest time of the records, whatever the header
// says, and who stamps them.
func TestHeaderTimeIsTrue(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 5, nil)
	c := f.dial()
	for codec := core.CodecNone; codec <= core.CodecZstd; codec++ {
		for _, claim := range []int64{-1, -2, math.MinInt64, 0, 1002, math.MaxInt64} {
			sent := batchOf(t, codec, core.Nobody, func(b *core.BatchBuilder) { b.Add(1000, nil, nil); b.Add(1002, nil, nil); b.Add(1001, nil, nil) })
			patch(sent, func(b []byte) {
				binary.BigEndian.PutUint64(b[35:], uint64(claim))
				b[22] |= core.AttrLogAppendTime
			})
			p := c.produced(9, topic, int32(codec), sent)
			if p.ErrorCode != 0 {
				t.Fatalf("codec %d, greatest time %d: code %d", codec, claim, p.ErrorCode)
			}
			got := c.fetched(fetchOne(fetchMax, topic, int32(codec), p.BaseOffset)).RecordBatches
			h, _ := core.ParseBatchHeader(got)
			if h.MaxTime != 1002 || h.Attributes != int16(codec) || h.CRC != core.BatchCRC(got) {
				t.Fatalf("codec %d, greatest time %d: stored as %+v", codec, claim, h)
			}
		}
	}
}

// TestBomb refuses records that inflate beyond all bounds, in little memory, in any topic.
func TestBomb(t *testing.T) {
	f := start(t, nil)
	record := binary.AppendVarint(nil, core.MaxInflated)
	record = append(record, 0, 0, 0, 1) // attributes, deltas, no key
	record = append(binary.AppendVarint(record, core.MaxInflated-9), make([]byte, core.MaxInflated)...)
	for name, config := range map[string]map[string]string{
		"plain":     nil,
		"compacted": {"cleanup.policy": "compact"},
		"other":     {"compression.type": "lz4"},
		"none":      {"compression.type": "uncompressed"},
	} {
		topic := f.topic(name, 1, config)
		c := f.dial()
		for codec := core.CodecGzip; codec <= core.CodecZstd; codec++ {
			if codec == core.CodecSnappy || codec == core.CodecLZ4 {
				continue // cannot do it within max.message.bytes
			}
			payload, err := core.Compress(codec, 0, nil, record)
			if err != nil {
				t.Fatal(err)
			}
			bomb := packedBatch(codec, 1, 1, payload)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := c.produced(9, topic, 0, bomb)
			runtime.ReadMemStats(&after)
			if got.ErrorCode != codeMessageTooLarge {
				t.Fatalf("%s: code %d for %d bytes, want %d", name, got.ErrorCode, len(bomb), codeMessageTooLarge)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > core.MaxInflated/2 {
				t.Fatalf("%s, codec %d: %d bytes allocated", name, codec, grown)
			}
		}
	}
}

// TestBombsDoNotBlock serves who inflates little while the lane for much is taken.
func TestBombsDoNotBlock(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	for range cap(f.server.inflating.heavy) {
		f.server.inflating.heavy <- struct{}{}
	}
	stuck := f.dial()
	much := string(make([]byte, 2*core.LightInflated))
	stuck.send(produceOne(9, topic, 0, batch(t, core.CodecZstd, 1, much)))
	if p := f.dial().produced(9, topic, 0, batch(t, core.CodecZstd, 1, "x")); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Fatalf("code %d at %d", p.ErrorCode, p.BaseOffset)
	}
	for range cap(f.server.inflating.heavy) {
		<-f.server.inflating.heavy
	}
	resp := answer[*kmsg.ProduceResponse](stuck, produceOne(9, topic, 0, nil))
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 1 {
		t.Fatalf("code %d at %d", p.ErrorCode, p.BaseOffset)
	}
}
