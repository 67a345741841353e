package state

import (
	"slices"

	"polylog/core"
	"polylog/core/wire"
)

// A publish command's body:
//
//	namespace, exchange, count uvarint, that many keys (the routing key first), and one
//	record batch, whole, of one record that is not compressed
//
// Strings have their length, as uvarint, in front.

// PublishCommand publishes a message to an exchange. The batch is not copied. The result's
// Offset is the number of queues and topics that it was for; Start is 1 where one of them
// refused it, since it is full, and 0 else.
func PublishCommand(exchange core.Name, keys []string, batch []byte) core.Command {
	return PublishCommandIn(nil, exchange, keys, batch)
}

// PublishCommandIn is PublishCommand with its Head appended to memory of the caller's.
func PublishCommandIn(head []byte, exchange core.Name, keys []string, batch []byte) core.Command {
	return core.Command{Code: CodePublish, Head: appendAddress(head, exchange, keys), Payload: batch}
}

func appendAddress(b []byte, exchange core.Name, keys []string) []byte {
	n := 16 + len(exchange.Namespace) + len(exchange.Name)
	for _, k := range keys {
		n += 2 + len(k)
	}
	b = slices.Grow(b, n)
	b = wire.AppendUvarint(appendName(b, exchange), uint64(len(keys)))
	for _, k := range keys {
		b = wire.AppendString(b, k)
	}
	return b
}

// What a publish may have.
const (
	// MaxKeys bounds the keys of a message.
	MaxKeys = 1024
	// MaxKey bounds a routing key, in bytes.
	MaxKey = 4096
)

// publishing is a publish that was read.
type publishing struct {
	namespace, exchange []byte
	passage
}

// readFrom reads the body of a publish, which lies at pos of the entry's data. It allocates
// nothing: all aliases the entry.
func (p *publishing) readFrom(c *cursor, body []byte, pos uint32) *core.Error {
	r := wire.NewReader(body)
	p.namespace, p.exchange = r.Bytes(), r.Bytes()
	n := r.Count(1)
	p.keys = p.keys[:0]
	for range min(n, MaxKeys+1) {
		p.keys = append(p.keys, r.Bytes())
	}
	if n < 1 || n > MaxKeys {
		return core.E(core.Invalid, "publish: %d keys, want 1 to %d", n, MaxKeys)
	}
	for _, k := range p.keys {
		if len(k) > MaxKey {
			return core.E(core.TooLarge, "publish: a key of %d bytes, at most %d are allowed", len(k), MaxKey)
		}
	}
	batch := r.Rest()
	if r.Err() != nil || len(batch) < core.BatchHeaderLen {
		return core.E(core.Invalid, "publish: %d bytes of batch: %v", len(batch), r.Err())
	}
	h, _ := core.ParseBatchHeader(batch)
	if h.Magic != core.BatchMagic || h.TotalLen() != len(batch) || h.LastOffsetDelta != 0 || h.Count != 1 ||
		h.Codec() != core.CodecNone || h.Control() || h.HasProducer() {
		return core.E(core.Invalid, "publish: magic %d, length %d of %d bytes, attributes %#x, %d records up to delta %d, producer %d",
			h.Magic, h.TotalLen(), len(batch), h.Attributes, h.Count, h.LastOffsetDelta, h.ProducerID)
	}
	p.begin(core.Run{
		MaxTime: c.time,
		Ref: core.Ref{
			Index: c.index,
			Pos:   pos + uint32(len(body)-len(batch)),
			Len:   uint32(len(batch)),
			Count: 1,
		},
	}, batch)
	return nil
}

// find finds where a publish is to go. Its destinations are to be dropped.
func (p *publishing) find(s *State, tx txn, c *cursor) (destinations, *core.Error, error) {
	v := s.routing.vhosts[string(p.namespace)]
	if v == nil {
		return destinations{}, noNamespace(string(p.namespace)), nil
	}
	if x := v.exchanges[string(p.exchange)]; x != nil && x.Internal {
		return destinations{}, core.E(core.Denied, "cannot publish to internal exchange %s", x.Name), nil
	}
	d, found, err := s.match(tx, c, v, p.exchange, &p.passage)
	if err == nil && !found {
		return d, noExchange(core.Name{Namespace: v.Name, Name: string(p.exchange)}), nil
	}
	return d, nil, err
}

func (s *State) publishTo(tx txn, c *cursor, body []byte, pos uint32) core.Result {
	p := &s.publishing
	if err := p.readFrom(c, body, pos); err != nil {
		return core.Result{Err: err}
	}
	d, refusal, err := p.find(s, tx, c)
	switch {
	case err != nil:
		return s.storeResult(err)
	case refusal != nil:
		return core.Result{Err: refusal}
	}
	r, err := s.deliver(tx, c, &p.passage, d)
	s.routing.match.drop(d)
	if err != nil {
		return s.storeResult(err)
	}
	return r.result()
}

func (r routed) result() core.Result {
	res := core.Result{Offset: core.Offset(r.queues)}
	if r.rejected {
		res.Start = 1
	}
	return res
}
