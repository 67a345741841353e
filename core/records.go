package core

import (
	"bytes"
	"encoding/binary"
	"io"
	"iter"
	"math/bits"
	"slices"
	"unsafe"
)

// A record inside a batch. All numbers but the attributes are zigzag varints:
//
//	+--------+------------+------------+--------------+---------------------+
//	| length | attributes | time delta | offset delta | key length (-1 null)|
//	|        | i8, unused |            |              | and key             |
//	+--------+------------+------------+--------------+---------------------+
//	+-----------------------+-----------------------------------------------+
//	| value length (-1 null)| header count, then for each: key length, key, |
//	| and value             | value length (-1 null), value                 |
//	+-----------------------+-----------------------------------------------+
//
// length counts what follows it. The records of a compressed batch are compressed
// together; the batch's header never is.

// RecordHeader is a header of a record.
type RecordHeader struct {
	Key   string
	Value []byte // nil means null
}

// Record is a message of a batch.
type Record struct {
	Offset  Offset // the batch's base offset plus the record's delta
	Time    int64  // ms; of the batch where it says LogAppendTime
	Stamped bool   // the batch says so: the time is the broker's, not the producer's
	Vouched bool   // the batch says so: its user id was checked; see AttrVouched
	Key     []byte // nil means null
	Value   []byte // nil means null
	Headers []RecordHeader
}

// Records iterates over the records of a whole batch, which may be compressed and
// inflate to at most limit bytes. Keys and values alias the batch or memory of their
// own, and may be kept as long as the batch may. After an error, of kind Corrupt or
// TooLarge, it stops.
func Records(batch []byte, limit int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		h, ok := ParseBatchHeader(batch)
		if !ok {
			yield(Record{}, E(Corrupt, "batch of %d bytes, want at least %d", len(batch), BatchHeaderLen))
			return
		}
		payload := batch[BatchHeaderLen:]
		if h.Codec() != CodecNone {
			var err error
			if payload, err = Decompress(h.Codec(), nil, payload, limit); err != nil {
				yield(Record{}, err)
				return
			}
		}
		for range h.Count {
			r, rest, ok := nextRecord(payload, &h)
			if !ok {
				yield(Record{}, E(Corrupt, "record %d bytes before the end of its batch is malformed", len(payload)))
				return
			}
			if !yield(r, nil) {
				return
			}
			payload = rest
		}
		if len(payload) > 0 {
			yield(Record{}, E(Corrupt, "%d bytes after the last record of a batch", len(payload)))
		}
	}
}

// nextRecord takes a record off the front of b.
func nextRecord(b []byte, h *BatchHeader) (r Record, rest []byte, ok bool) {
	rest, ok = r.read(b, h, func(name []byte) string { return string(name) })
	return r, rest, ok
}

// FirstRecord reads the first record of a whole batch, which is not compressed, into r. It
// uses the memory of r.Headers again; everything else aliases the batch, which must not
// change as long as r is in use. The error is of kind Corrupt.
func FirstRecord(batch []byte, r *Record) error {
	h, ok := ParseBatchHeader(batch)
	if !ok || h.Codec() != CodecNone || h.Count < 1 {
		return E(Corrupt, "batch of %d bytes, codec %d, with %d records: there is no first one to be read", len(batch), h.Codec(), h.Count)
	}
	_, ok = r.read(batch[BatchHeaderLen:], &h, func(name []byte) string {
		return unsafe.String(unsafe.SliceData(name), len(name))
	})
	if !ok {
		return E(Corrupt, "the first record of a batch of %d bytes is malformed", len(batch))
	}
	return nil
}

// read takes a record off the front of b. The memory of r.Headers is used again; name makes
// their names.
func (r *Record) read(b []byte, h *BatchHeader, name func([]byte) string) (rest []byte, ok bool) {
	body, rest, ok := varBytes(b)
	if !ok || len(body) < 1 {
		return nil, false
	}
	b = body[1:]
	var delta, n int64
	if delta, b, ok = varint(b); !ok {
		return nil, false
	}
	r.Time, r.Stamped = h.BaseTime+delta, h.Attributes&AttrLogAppendTime != 0
	r.Vouched = h.Attributes&AttrVouched != 0
	if r.Stamped {
		r.Time = h.MaxTime
	}
	if delta, b, ok = varint(b); !ok {
		return nil, false
	}
	r.Offset = h.BaseOffset + Offset(delta)
	if r.Key, b, ok = varBytes(b); !ok {
		return nil, false
	}
	if r.Value, b, ok = varBytes(b); !ok {
		return nil, false
	}
	if n, b, ok = varint(b); !ok || n < 0 || n > int64(len(b)/2) {
		return nil, false
	}
	r.Headers = slices.Grow(r.Headers[:0], int(n))[:n]
	for i := range r.Headers {
		var key []byte
		if key, b, ok = varBytes(b); !ok || key == nil {
			return nil, false
		}
		r.Headers[i].Key = name(key)
		if r.Headers[i].Value, b, ok = varBytes(b); !ok {
			return nil, false
		}
	}
	return rest, len(b) == 0
}

func varint(b []byte) (v int64, rest []byte, ok bool) {
	v, n := binary.Varint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

// varBytes takes a varint length and that many bytes: nil for length -1.
func varBytes(b []byte) (v, rest []byte, ok bool) {
	n, b, ok := varint(b)
	switch {
	case !ok || n < -1 || n > int64(len(b)):
		return nil, nil, false
	case n < 0:
		return nil, b, true
	}
	return b[:n:n], b[n:], true
}

// appendVarBytes is the opposite of varBytes.
func appendVarBytes(dst, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(v))), v...)
}

// recordLen is the length of a record without its own length in front, in bytes.
func recordLen(time, offset int64, key, value []byte, headers []RecordHeader) int {
	n := 1 + varintLen(time) + varintLen(offset) + varBytesLen(key) + varBytesLen(value) + varintLen(int64(len(headers)))
	for _, h := range headers {
		n += varintLen(int64(len(h.Key))) + len(h.Key) + varBytesLen(h.Value)
	}
	return n
}

// varintLen is how many bytes binary.AppendVarint appends.
func varintLen(v int64) int {
	zigzag := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}

// varBytesLen is how many bytes appendVarBytes appends.
func varBytesLen(v []byte) int {
	if v == nil {
		return 1 // of -1
	}
	return varintLen(int64(len(v))) + len(v)
}

// BatchBuilder gathers records into one batch. The zero value is ready.
type BatchBuilder struct {
	records  []byte
	count    int32
	baseTime int64
	maxTime  int64
	vouched  int16 // AttrVouched, or 0
}

// Add appends a record.
func (b *BatchBuilder) Add(time int64, key, value []byte, headers ...RecordHeader) {
	if b.count == 0 {
		b.baseTime, b.maxTime = time, time
	}
	b.maxTime = max(b.maxTime, time)
	delta, n := time-b.baseTime, recordLen(time-b.baseTime, int64(b.count), key, value, headers)
	s := slices.Grow(b.records, binary.MaxVarintLen64+n)
	s = append(binary.AppendVarint(s, int64(n)), 0) // attributes
	s = binary.AppendVarint(s, delta)
	s = binary.AppendVarint(s, int64(b.count))
	s = appendVarBytes(s, key)
	s = appendVarBytes(s, value)
	s = binary.AppendVarint(s, int64(len(headers)))
	for _, h := range headers {
		s = binary.AppendVarint(s, int64(len(h.Key)))
		s = append(s, h.Key...)
		s = appendVarBytes(s, h.Value)
	}
	b.records = s
	b.count++
}

// Len is the number of records added.
func (b *BatchBuilder) Len() int { return int(b.count) }

// Size is the length of the uncompressed batch so far, in bytes.
func (b *BatchBuilder) Size() int { return BatchHeaderLen + len(b.records) }

// Vouch says that the user ids of all records were checked, or will have been.
func (b *BatchBuilder) Vouch() { b.vouched = AttrVouched }

// Reset makes the builder empty, keeping its memory.
func (b *BatchBuilder) Reset() { b.records, b.count, b.vouched = b.records[:0], 0, 0 }

// Build appends the batch to dst: at least one record must have been added.
func (b *BatchBuilder) Build(dst []byte, o BatchOptions) ([]byte, error) {
	return finishBatch(dst, BatchHeader{
		LeaderEpoch:     -1,
		Attributes:      o.Attributes&^AttrCompressionMask | b.vouched,
		LastOffsetDelta: b.count - 1,
		BaseTime:        b.baseTime,
		MaxTime:         b.maxTime,
		ProducerID:      o.Producer.ID,
		ProducerEpoch:   o.Producer.Epoch,
		BaseSequence:    o.Producer.Sequence,
		Count:           b.count,
	}, b.records, o.Codec, o.Level)
}

// BatchOptions are a batch's properties beside its records.
type BatchOptions struct {
	Codec      int
	Level      int   // of the codec; 0 is its default
	Attributes int16 // the bits above the codec
	Producer   Producer
}

// Producer says who wrote a batch. Use NoProducer in all fields for nobody.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32
}

// Nobody is the Producer of plain batches.
var Nobody = Producer{ID: NoProducer, Epoch: NoProducer, Sequence: NoProducer}

// BatchWriter builds a batch from its header and its records' bytes as they stream by.
type BatchWriter struct {
	out     bytes.Buffer
	limit   int
	records io.WriteCloser
}

// NewBatchWriter starts a batch that is h but for codec, length and checksum, and may have
// at most limit bytes: Write and Finish return an error of kind TooLarge for more.
func NewBatchWriter(h BatchHeader, codec, level, limit int) (*BatchWriter, error) {
	w := &BatchWriter{limit: limit}
	h.Attributes = h.Attributes&^AttrCompressionMask | int16(codec)
	w.out.Write(h.AppendTo(nil))
	var err error
	w.records, err = Deflate(codec, level, limitedWriter{w})
	return w, err
}

// Write adds uncompressed records, or parts of them.
func (w *BatchWriter) Write(p []byte) (int, error) { return w.records.Write(p) }

// Finish returns the batch.
func (w *BatchWriter) Finish() ([]byte, error) {
	if err := w.records.Close(); err != nil {
		return nil, err
	}
	batch := w.out.Bytes()
	sealBatch(batch)
	return batch, nil
}

// limitedWriter takes the compressed bytes of a BatchWriter.
type limitedWriter struct{ batch *BatchWriter }

func (l limitedWriter) Write(p []byte) (int, error) {
	w := l.batch
	if w.out.Len()+len(p) > w.limit {
		return 0, E(TooLarge, "batch of more than %d bytes in the topic's codec", w.limit)
	}
	return w.out.Write(p)
}

// sealBatch fills in a batch's length and checksum.
func sealBatch(batch []byte) {
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-batchLengthEnd))
	SetBatchCRC(batch)
}

// finishBatch appends h, completed, and the records.
func finishBatch(dst []byte, h BatchHeader, records []byte, codec, level int) ([]byte, error) {
	at := len(dst)
	h.Magic = 2
	h.Attributes |= int16(codec)
	if codec == CodecNone {
		dst = append(h.AppendTo(slices.Grow(dst, BatchHeaderLen+len(records))), records...)
		sealBatch(dst[at:])
		return dst, nil
	}
	dst = h.AppendTo(dst)
	dst, err := Compress(codec, level, dst, records)
	if err != nil {
		return dst[:at], err
	}
	sealBatch(dst[at:])
	return dst, nil
}
