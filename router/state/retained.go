package state

import (
	"bytes"
	"strings"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/topicfilter"
	"polylog/core/wire"
	"polylog/index"
)

// A retained message is the newest one that was published to an MQTT topic name to be kept
// (MQTT 5, section 3.3.1.3). It is kept as a copy: it has to outlive the topic's retention.

// Retain appends a batch of one record to a partition and keeps it as the retained message
// of a name; without a value it removes the one that there is. The result is append's.
//
// Its body is the queue as u64, the namespace and the name, each with its length in front, and the batch.
type Retain struct {
	Queue core.QueueID
	Name  core.Name
	Batch []byte
}

// Command does not copy the batch.
func (c *Retain) Command() core.Command {
	head := appendName(wire.AppendUint64(nil, uint64(c.Queue)), c.Name)
	return core.Command{Code: CodeRetain, Head: head, Payload: c.Batch}
}

func decodeRetain(body []byte) (c Retain, err error) {
	r := wire.NewReader(body)
	c.Queue, c.Name = core.QueueID(r.Uint64()), readName(&r)
	c.Batch = r.Rest()
	return c, r.Close()
}

func (s *State) retain(tx txn, c *cursor, body []byte, pos uint32) core.Result {
	cmd, err := decodeRetain(body)
	if err != nil {
		return invalid("retain", err)
	}
	return s.appendRetained(tx, c, &cmd, pos+uint32(len(body)-len(cmd.Batch)))
}

// appendRetained is retain for a batch that lies at pos of the entry's data.
func (s *State) appendRetained(tx txn, c *cursor, cmd *Retain, pos uint32) core.Result {
	p, topic := s.all.queues.find(cmd.Queue)
	switch {
	case !topic:
		return refused(core.NotFound, "no partition %d", cmd.Queue)
	case p.topic.Name.Namespace != cmd.Name.Namespace:
		return refused(core.Invalid, "retain: partition %d is of namespace %.80q", cmd.Queue, p.topic.Name.Namespace)
	}
	if err := topicfilter.CheckName(cmd.Name.Name); err != nil {
		return invalid("retain", err)
	}
	var rec core.Record
	if h, _ := core.ParseBatchHeader(cmd.Batch); h.Count != 1 || h.LastOffsetDelta != 0 || h.HasProducer() {
		return refused(core.Invalid, "retain: %d records up to delta %d, want one of no producer", h.Count, h.LastOffsetDelta)
	}
	if err := core.FirstRecord(cmd.Batch, &rec); err != nil {
		return invalid("retain", err)
	}
	res := s.appendBatch(tx, c, cmd.Queue, cmd.Batch, pos)
	if res.Err != nil {
		return res
	}
	key := retainedKey(cmd.Name)
	if len(rec.Value) == 0 {
		tx.Delete(key)
	} else {
		tx.Set(key, append(wire.AppendUvarint([]byte{valueVersion}, uint64(c.index)), cmd.Batch...))
		if due := message.ExpiresAt(&rec); due > 0 {
			if err := s.setTimer(tx, timerRetained, key, due, wire.AppendUvarint(nil, uint64(c.index))); err != nil {
				return s.storeResult(err)
			}
		}
	}
	return res
}

// expireRetained removes a retained message whose time is over, unless another one has taken
// its place: the timer has which one it is for.
func (s *State) expireRetained(tx txn, key, value []byte) error {
	r := wire.NewReader(value)
	index := core.LogIndex(r.Uvarint())
	if err := r.Close(); err != nil {
		return core.E(core.Corrupt, "timer of retained message %x: %v", key, err)
	}
	v, ok, err := tx.Get(key)
	if err != nil || !ok {
		return err
	}
	m, err := decodeRetained("", v)
	if err == nil && m.Index == index {
		tx.Delete(key)
	}
	return err
}

// sweepRetainedOf removes retained messages of a deleted namespace, and says how many.
func (s *State) sweepRetainedOf(tx txn, namespace string, limit int) (int, error) {
	prefix := retainedPrefix(namespace)
	keys, err := scanKeys(tx, prefix, after(prefix), limit)
	for _, k := range keys {
		tx.Delete(k)
	}
	return len(keys), err
}

// retainedPrefix is that of a namespace's retained messages.
func retainedPrefix(namespace string) []byte {
	return wire.AppendString([]byte{prefixRetained}, namespace)
}

// retainedKey has a null character, which names cannot have, for each slash: so the names
// below a level lie together.
func retainedKey(n core.Name) []byte { return append(retainedPrefix(n.Namespace), levelKey(n.Name)...) }

func levelKey(name string) string { return strings.ReplaceAll(name, "/", "\x00") }

// Retained is a retained message.
type Retained struct {
	Name  string // MQTT topic name
	Index core.LogIndex
	Batch []byte // of one record
}

const (
	// retainedLooks bounds the names that one ReadRetained looks at.
	retainedLooks = 1 << 12
	// retainedMisses is how many names in a row that do not match make it look where the next
	// one may be.
	retainedMisses = 16
)

// ReadRetained calls fn with retained messages of a namespace whose names match a legal
// filter, in the order of their levels, from the one after from on, until it returns false.
// It looks at a bounded number of names: more says that there may be others, after next.
// What fn gets is valid during the call only.
func ReadRetained(r index.Reader, namespace, filter, from string, fn func(Retained) bool) (next string, more bool, err error) {
	prefix := retainedPrefix(namespace)
	literal, wild := literalLevels(filter)
	if !wild {
		v, ok, err := r.Get(retainedKey(core.Name{Namespace: namespace, Name: filter}))
		if err == nil && ok && from == "" {
			var one Retained
			if one, err = decodeRetained(filter, v); err == nil {
				fn(one)
			}
		}
		return "", false, err
	}
	w := retainedWalk{filter: strings.Split(filter, "/"), prefix: prefix}
	first := append(bytes.Clone(prefix), levelKey(literal)...)
	end := after(prefix)
	if literal != "" {
		end = append(bytes.Clone(first), 1) // after the literal levels' own name and all below it
	}
	start := first
	if from != "" {
		start = append(append(bytes.Clone(prefix), levelKey(from)...), 0)
		if bytes.Compare(start, first) < 0 {
			start = first
		}
	}
	looks, stopped := 0, false
	for start != nil && !stopped {
		var bad error
		misses := 0
		jump := []byte(nil)
		err := r.Scan(start, end, func(k, v []byte) bool {
			looks++
			name := strings.ReplaceAll(string(k[len(prefix):]), "\x00", "/")
			next = name
			if topicfilter.Match(filter, name) {
				misses = 0
				var one Retained
				if one, bad = decodeRetained(name, v); bad != nil {
					return false
				}
				stopped = !fn(one)
				return !stopped && looks < retainedLooks
			}
			if misses++; misses >= retainedMisses {
				if jump = w.jump(name); jump != nil && bytes.Compare(jump, k) > 0 {
					return false
				}
				jump = nil
			}
			return looks < retainedLooks
		})
		switch {
		case err != nil:
			return next, false, err
		case bad != nil:
			return next, false, bad
		case stopped || looks >= retainedLooks:
			return next, true, nil
		}
		if start = jump; start != nil && bytes.Compare(start, end) >= 0 {
			start = nil
		}
	}
	return "", false, nil
}

// literalLevels are the levels of a filter before its first wildcard, and whether there is
// one. The level after which # stands belongs to them.
func literalLevels(filter string) (literal string, wild bool) {
	rest, more, at := filter, true, 0
	for more {
		var l string
		l, rest, more = topicfilter.Cut(rest)
		if l == "+" || l == "#" {
			return filter[:max(at-1, 0)], true
		}
		at += len(l) + 1
	}
	return filter, false
}

// retainedWalk finds the way past names that do not match.
type retainedWalk struct {
	filter []string
	prefix []byte
}

// jump is the first key after a name that does not match at which one that does can lie;
// nil: the next one.
func (w *retainedWalk) jump(name string) []byte {
	levels := strings.Split(name, "/")
	for i, f := range w.filter {
		switch {
		case f == "#" || i >= len(levels):
			return nil
		case f == "+" || f == levels[i]:
			continue
		case levels[i] < f:
			return w.key(append(levels[:i:i], f))
		case i == 0:
			return nil
		default:
			return append(w.key(levels[:i]), 1) // nothing more below the level above
		}
	}
	if len(levels) > len(w.filter) {
		return append(w.key(levels[:len(w.filter)]), 1)
	}
	return nil
}

func (w *retainedWalk) key(levels []string) []byte {
	return append(bytes.Clone(w.prefix), strings.Join(levels, "\x00")...)
}

// A retained message's value: version byte, log index uvarint, the batch.
func decodeRetained(name string, v []byte) (m Retained, err error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "retained message"); err != nil {
		return m, err
	}
	m = Retained{Name: name, Index: core.LogIndex(r.Uvarint()), Batch: r.Rest()}
	if err := r.Close(); err != nil {
		return m, core.E(core.Corrupt, "retained message: %v", err)
	}
	return m, nil
}
