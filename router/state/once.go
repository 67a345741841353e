package state

import (
	"encoding/binary"

	"polylog/core"
	"polylog/core/wire"
)

// PublishOnce appends batches to partitions of topics, all or none, unless that was done
// under its key before: then the result is the one of that time. Another content under the
// same key is refused (Conflict). What is known of a key goes after Window; each command
// removes a few that are older than that.
type PublishOnce struct {
	Key     string
	Digest  [16]byte // of the content
	Window  int64    // ms
	Batches []QueueBatch
}

// QueueBatch is a batch for a queue.
type QueueBatch struct {
	Queue core.QueueID
	Data  []byte // one whole record batch
}

// Bounds of one PublishOnce.
const (
	// MaxOnceKey bounds keys, in bytes.
	MaxOnceKey = 1024
	maxOnce    = 1024 // batches
	// onceSwept is how many old keys a command removes.
	onceSwept = 4
)

// Command encodes: key, digest 16 bytes, window uvarint, count uvarint, the length of each
// batch uvarint; then for each its queue u64 and its bytes, as append commands have them.
func (c *PublishOnce) Command() core.Command {
	b := append(wire.AppendString(nil, c.Key), c.Digest[:]...)
	b = wire.AppendUvarint(b, uint64(c.Window))
	b = wire.AppendUvarint(b, uint64(len(c.Batches)))
	n := 0
	for _, q := range c.Batches {
		b = wire.AppendUvarint(b, uint64(len(q.Data)))
		n += appendHeadLen + len(q.Data)
	}
	payload := make([]byte, 0, n)
	for _, q := range c.Batches {
		payload = append(binary.BigEndian.AppendUint64(payload, uint64(q.Queue)), q.Data...)
	}
	return core.Command{Code: CodePublishOnce, Head: b, Payload: payload}
}

func decodePublishOnce(body []byte) (c PublishOnce, err error) {
	r := wire.NewReader(body)
	c.Key = r.String()
	copy(c.Digest[:], r.Take(len(c.Digest)))
	c.Window = int64(r.Uvarint())
	lengths := make([]int, r.Count(1+appendHeadLen))
	for i := range lengths {
		lengths[i] = int(min(r.Uvarint(), uint64(len(body))))
	}
	c.Batches = make([]QueueBatch, len(lengths))
	for i, n := range lengths {
		c.Batches[i] = QueueBatch{core.QueueID(r.Uint64()), r.Take(n)}
	}
	return c, r.Close()
}

// Once is what became of a PublishOnce: for each batch the offset of its first record.
type Once struct {
	Replayed bool // it was done before
	Offsets  []core.Offset
}

// appendTo encodes: count uvarint, offsets uvarint.
func (o *Once) appendTo(b []byte) []byte {
	b = wire.AppendUvarint(b, uint64(len(o.Offsets)))
	for _, offset := range o.Offsets {
		b = wire.AppendUvarint(b, uint64(offset))
	}
	return b
}

func readOnce(r *wire.Reader) (o Once) {
	o.Offsets = make([]core.Offset, r.Count(1))
	for i := range o.Offsets {
		o.Offsets[i] = core.Offset(r.Uvarint())
	}
	return o
}

// DecodeOnce reads the body of PublishOnce's result: replayed byte and Once.
func DecodeOnce(body []byte) (o Once, err error) {
	r := wire.NewReader(body)
	replayed := r.Bool()
	o = readOnce(&r)
	o.Replayed = replayed
	return o, r.Close()
}

// The key of what is known, and of when that goes.
func onceKey(key string) []byte { return append([]byte{prefixHTTP, 'o'}, key...) }

func onceDueKey(due int64, key string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{prefixHTTP, 't'}, uint64(due)), key...)
}

// known is what is known of a key: version byte, due varint, digest 16 bytes, Once.
type knownOnce struct {
	due    int64 // when it goes, ms
	digest [16]byte
	once   Once
}

func (k *knownOnce) encode() []byte {
	b := append(wire.AppendVarint([]byte{valueVersion}, k.due), k.digest[:]...)
	return k.once.appendTo(b)
}

func decodeKnownOnce(v []byte) (k knownOnce, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "once"); err != nil {
		return k, err
	}
	k.due = r.Varint()
	copy(k.digest[:], r.Take(len(k.digest)))
	k.once = readOnce(&r)
	if err := r.Close(); err != nil {
		return k, core.E(core.Corrupt, "once: %v", err)
	}
	return k, nil
}

func (s *State) publishOnce(tx txn, c *cursor, body []byte, pos uint32) core.Result {
	cmd, err := decodePublishOnce(body)
	switch {
	case err != nil:
		return invalid("publish once", err)
	case cmd.Key == "" || len(cmd.Key) > MaxOnceKey || cmd.Window < 1 || len(cmd.Batches) < 1 || len(cmd.Batches) > maxOnce:
		return refused(core.Invalid, "publish once: key of %d bytes, window %d, %d batches", len(cmd.Key), cmd.Window, len(cmd.Batches))
	}
	if err := s.forgetOnce(tx, c.time); err != nil {
		return s.storeResult(err)
	}
	v, ok, err := tx.Get(onceKey(cmd.Key))
	if err != nil {
		return s.storeResult(err)
	}
	if ok {
		known, err := decodeKnownOnce(v)
		switch {
		case err != nil:
			return s.storeResult(err)
		case known.due <= c.time: // it is to go, and did not yet
			tx.Delete(onceDueKey(known.due, cmd.Key))
		case known.digest != cmd.Digest:
			return refused(core.Conflict, "something else was published under this key")
		default:
			return core.Result{Body: known.once.appendTo(wire.AppendBool(nil, true))}
		}
	}
	for _, b := range cmd.Batches { // all or none
		if _, ok := s.all.queues.find(b.Queue); !ok {
			return refused(core.NotFound, "no partition with queue %d", b.Queue)
		}
		if h, ok := core.ParseBatchHeader(b.Data); !ok || h.Magic != core.BatchMagic || h.TotalLen() != len(b.Data) ||
			h.LastOffsetDelta < 0 || h.Count < 1 || h.HasProducer() {
			return refused(core.Invalid, "publish once: not a whole batch of no producer")
		}
	}
	known := knownOnce{due: c.time + cmd.Window, digest: cmd.Digest}
	at := len(body)
	for _, b := range cmd.Batches {
		at -= appendHeadLen + len(b.Data)
	}
	for _, b := range cmd.Batches {
		end := at + appendHeadLen + len(b.Data)
		r := s.append(tx, c, body[at:end], pos+uint32(at))
		if r.Err != nil {
			return r
		}
		known.once.Offsets = append(known.once.Offsets, r.Offset)
		at = end
	}
	tx.Set(onceKey(cmd.Key), known.encode())
	tx.Set(onceDueKey(known.due, cmd.Key), nil)
	return core.Result{Body: known.once.appendTo(wire.AppendBool(nil, false))}
}

// forgetOnce removes a few keys whose time is over.
func (s *State) forgetOnce(tx txn, now int64) error {
	due, err := scanKeys(tx, []byte{prefixHTTP, 't'}, onceDueKey(now+1, ""), onceSwept)
	for _, k := range due {
		tx.Delete(k)
		tx.Delete(onceKey(string(k[10:])))
	}
	return err
}
