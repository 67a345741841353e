package kafkarest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

const (
	// maxAnswerBytes bounds keys and values in an answer, whatever max_bytes says, but for one record.
	maxAnswerBytes = 64 << 20
	// scanBytes is how much of a partition is looked at before the next one has its turn.
	scanBytes = 4 << 20
	// peekEvery is how often a call that waits looks whether its client is still there.
	peekEvery = 500 * time.Millisecond
)

// readRecords answers with the next records of what is assigned: as soon as there are any, or as many
// bytes as fetch.min.bytes says, or when the time is over. Positions move when the answer is on its
// way, and not where the client is gone.
func readRecords(c *call) error {
	in, err := c.instance()
	if err != nil {
		return err
	}
	defer in.leave()
	f, err := c.accepted(in.config.format)
	if err != nil {
		return err
	}
	if f != in.config.format {
		return errFormat
	}
	r := reader{call: c, in: in, from: map[*cursor]core.Offset{}, at: map[*cursor]core.Offset{}, body: []byte{'['}}
	if r.deadline, r.most, err = c.readArgs(in); err != nil {
		return err
	}
	if in.readsNothing() {
		return &refusal{codeIllegal, "Illegal state: Consumer is not subscribed to any topics or assigned any partitions"}
	}
	timer := time.NewTimer(time.Until(r.deadline))
	defer timer.Stop()
	select {
	case in.reading <- struct{}{}:
		defer func() { <-in.reading }()
	case <-timer.C: // another call for the same instance waits
		return r.answer()
	case <-c.gate.Context().Done():
		return errNotReady
	}
	in.arrived()
	if in.config.autoCommit && in.commitDue() {
		in.autoCommit(c.ctx, false)
	}
	if err := r.run(timer); err != nil {
		return err
	}
	if front.Gone(c.Conn()) {
		return core.E(core.Closed, "the client is gone")
	}
	r.move()
	return r.answer()
}

// commitDue reports whether positions are to be committed by themselves.
func (in *instance) commitDue() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.srv.opts.Clock().Sub(in.committed) >= commitInterval
}

// readArgs are until when to wait, and how many bytes to answer with at most.
func (c *call) readArgs(in *instance) (deadline time.Time, most int, err error) {
	number := func(name string) (int64, error) {
		text := c.QueryArgs().Peek(name)
		if len(text) == 0 {
			return -1, nil
		}
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return 0, &refusal{404, "HTTP 404 Not Found"} // as the original has it of bad numbers in a query
		}
		return n, nil
	}
	ms, err := number("timeout")
	if err != nil {
		return deadline, 0, err
	}
	bytes, err := number("max_bytes")
	if err != nil {
		return deadline, 0, err
	}
	wait, longest := defaultWait, maxWait
	if in.config.wait >= 0 {
		wait, longest = in.config.wait, in.config.wait
	}
	if ms > 0 {
		wait = min(longest, time.Duration(min(ms, maxWait.Milliseconds()))*time.Millisecond)
	}
	most = maxAnswerBytes
	if bytes > 0 {
		most = int(min(bytes, maxAnswerBytes))
	}
	return time.Now().Add(wait), most, nil
}

// defaultWait is how long a call waits whose client says nothing: consumer.request.timeout.ms.
const defaultWait = time.Second

// reader is one call for records at work.
type reader struct {
	*call
	in       *instance
	deadline time.Time
	most     int // bytes of keys and values

	from  map[*cursor]core.Offset // where the instance was
	at    map[*cursor]core.Offset // where it is when it has the answer
	body  []byte                  // JSON: records with a comma between them
	bytes int                     // of keys and values in it
	count int
	full  bool
}

// part is a partition at hand.
type part struct {
	topicPartition
	*cursor
}

// parts are the partitions that are assigned now, each time another one first, and what is closed
// when they are others.
func (r *reader) parts() (all []part, moved <-chan struct{}) {
	in := r.in
	in.mu.Lock()
	defer in.mu.Unlock()
	for p, k := range in.parts {
		all = append(all, part{p, k})
		if _, ok := r.from[k]; !ok {
			r.from[k], r.at[k] = k.at, k.at
		}
	}
	slices.SortFunc(all, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	if n := len(all); n > 0 {
		in.turn++
		first := in.turn % n
		all = append(slices.Clone(all[first:]), all[:first]...)
	}
	return all, in.moved
}

// run gathers records until there are enough, or the time is over.
func (r *reader) run(timer *time.Timer) error {
	peek := time.NewTicker(peekEvery)
	defer peek.Stop()
	for {
		again, err := r.pass(timer, peek)
		if err != nil || !again {
			return err
		}
	}
}

// pass takes what is there, and where that is too little waits until there is more, or other
// partitions are assigned. again is false where the answer is to be given.
func (r *reader) pass(timer *time.Timer, peek *time.Ticker) (again bool, err error) {
	parts, moved := r.parts()
	queues := make([]core.QueueID, len(parts))
	for i, p := range parts {
		queues[i] = p.queue
	}
	grown := make(chan struct{}, 1)
	defer r.router.Watch(queues, func() {
		select {
		case grown <- struct{}{}:
		default:
		}
	})()
	for {
		if err := r.take(parts); err != nil {
			return false, err
		}
		if least := r.in.config.minBytes; r.full || r.count > 0 && (least <= 1 || r.bytes >= least) {
			return false, nil
		}
		select {
		case <-timer.C:
			return false, nil
		case <-grown:
		case <-moved:
			return true, nil
		case <-r.gate.Context().Done():
			return false, errNotReady
		case <-peek.C:
			if front.Gone(r.Conn()) {
				return false, core.E(core.Closed, "the client is gone")
			}
		}
	}
}

// take takes what is there of each partition.
func (r *reader) take(parts []part) error {
	for _, p := range parts {
		for more := true; more && !r.full; {
			var err error
			if more, err = r.takeFrom(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeFrom takes some of a partition. more is true where there may be more.
func (r *reader) takeFrom(p part) (more bool, err error) {
	h, err := r.router.Head(p.queue)
	if core.KindOf(err) == core.NotFound {
		return false, nil // the topic is gone
	}
	if err != nil {
		return false, err
	}
	at := r.at[p.cursor]
	if at < 0 || at > h.End { // it never had one, or was reset
		if at, err = r.in.begin(p.queue); err != nil {
			return false, err
		}
		r.at[p.cursor] = at
	}
	var bad error
	stopped := false
	next, err := r.router.Browse(r.in.principal(), p.queue, at, math.MaxInt64, scanBytes, func(b router.Browsed) bool {
		if bad = r.add(p, &b.Record); bad != nil || r.full {
			stopped = true
			return false
		}
		r.at[p.cursor] = b.Offset + 1
		return true
	})
	if core.KindOf(err) == core.NotFound {
		return false, nil
	}
	if bad != nil && r.count == 0 {
		return false, bad
	}
	if bad != nil { // the answer ends before it, the next one begins with it
		r.full = true
	}
	if err != nil || stopped {
		return false, err
	}
	// What is left out, such as control records, is passed over too.
	r.at[p.cursor] = max(r.at[p.cursor], min(next, h.Stable))
	return r.at[p.cursor] > at && r.at[p.cursor] < h.Stable, nil
}

// add appends a record to the answer, unless that is full then.
func (r *reader) add(p part, rec *core.Record) error {
	size := len(rec.Key) + len(rec.Value)
	if r.count > 0 && r.bytes+size > r.most {
		r.full = true
		return nil
	}
	body := r.body
	if r.count > 0 {
		body = append(body, ',')
	}
	body = append(body, `{"topic":`...)
	body = appendText(body, p.Topic)
	body = append(body, `,"key":`...)
	body, ok := appendData(body, r.in.config.format, rec.Key)
	body = append(body, `,"value":`...)
	body, also := appendData(body, r.in.config.format, rec.Value)
	if !ok || !also {
		return &refusal{codeKafka, "Kafka error: Error deserializing key/value for partition " + p.Topic + "-" + strconv.Itoa(int(p.Partition)) +
			" at offset " + strconv.FormatInt(int64(rec.Offset), 10) + ": it is not JSON. If needed, please seek past the record to continue consumption."}
	}
	body = append(body, `,"partition":`...)
	body = strconv.AppendInt(body, int64(p.Partition), 10)
	body = append(body, `,"offset":`...)
	body = strconv.AppendInt(body, int64(rec.Offset), 10)
	body = append(appendHeaders(body, rec.Headers), '}')
	// Twice, for append makes room ahead. The first record is given even where there is no memory.
	if !r.budget.Take(2*int64(len(body)-len(r.body))) && r.count > 0 {
		r.full = true
		return nil
	}
	r.body = body
	r.bytes, r.count = r.bytes+size, r.count+1
	return nil
}

// appendHeaders appends headers as Strimzi's bridge has them, where there are any.
func appendHeaders(b []byte, hs []core.RecordHeader) []byte {
	for i, h := range hs {
		if i == 0 {
			b = append(b, `,"headers":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"key":`...)
		b = appendText(b, h.Key)
		b = append(b, `,"value":`...)
		if h.Value == nil {
			b = append(b, "null}"...)
			continue
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, h.Value)
		b = append(b, `"}`...)
	}
	if len(hs) > 0 {
		b = append(b, ']')
	}
	return b
}

// appendText appends a string in JSON.
func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always encode
	}
	return append(b, text...)
}

// move moves the instance's positions to behind the answer, but where they were moved meanwhile, or
// given to somebody else.
func (r *reader) move() {
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	for _, k := range r.in.parts {
		if at, ok := r.at[k]; ok && k.at == r.from[k] {
			k.at = at
		}
	}
}

// answer sends the records.
func (r *reader) answer() error {
	kind := "application/vnd.kafka." + string(r.in.config.format) + ".v2+json"
	front.Send(r.RequestCtx, 200, kind, append(r.body, ']'))
	return nil
}
