package state

import (
	"cmp"
	"slices"

	"polylog/core"
	"polylog/core/message"
)

// Where dead messages go. A group says it by the name of a queue, or a queue by its limits:
// an exchange, and maybe a routing key. Apply does not read messages, so who proposes that
// one is dead says what is to be known of it, in a Letter, to find its way through exchanges.

// Letter is what of a dead message exchanges look at, and what its next queue has to know.
type Letter struct {
	Offset   core.Offset
	Exchange string   // that it was published to
	Keys     []string // its routing keys: at least one
	Headers  []core.RecordHeader
	Size     int64 // of its body, bytes
}

// LetterOf is the letter of a record.
func LetterOf(o core.Offset, r *core.Record) Letter {
	l := Letter{
		Offset: o, Exchange: string(message.Exchange(r)), Keys: []string{string(message.RoutingKey(r))}, Headers: r.Headers,
		Size: int64(len(r.Value)),
	}
	if cc, ok := message.HeaderOf(r, "CC"); ok {
		for i := range cc.Len() {
			if v := cc.At(i); v.IsText() && len(l.Keys) < MaxKeys {
				l.Keys = append(l.Keys, v.Str())
			}
		}
	}
	return l
}

// findLetter finds the letter of an offset; letters are in the order of their offsets.
func findLetter(letters []Letter, o core.Offset) *Letter {
	i, ok := slices.BinarySearchFunc(letters, o, func(l Letter, o core.Offset) int { return cmp.Compare(l.Offset, o) })
	if !ok {
		return nil
	}
	return &letters[i]
}

// bury appends a record to the group's dead letter queue; false when there is none of that
// name, or nothing at the offset.
func (t *settling) bury(o core.Offset, why DeathReason) (bool, error) {
	s, tx := t.s, t.tx
	to, err := s.queueByName(tx, t.group.DeadLetter)
	if err != nil || to == nil {
		return false, err
	}
	run, ok, err := t.runOf(o)
	if err != nil || !ok {
		return false, err
	}
	appended := s.appendRun(tx, to.queue.ID, run)
	if appended.Err != nil {
		return false, appended.Err
	}
	h, err := t.history(o)
	if err != nil {
		return false, err
	}
	death := Death{Queue: t.name(), Offset: o, Reason: why, Time: t.c.time}
	if s.level >= 3 {
		h.add(death)
	} else { // what a node of level 2 makes of it
		if len(h.Deaths) >= maxDeaths {
			h.Deaths = append(h.Deaths[:1], h.Deaths[2:]...)
		}
		death.Count, death.First = 1, len(h.Deaths) == 0
		h.Deaths = append(h.Deaths, death)
	}
	h.Exchange, h.Keys = "", nil
	tx.Set(historyKey(to.queue.ID, appended.Offset), h.encode())
	s.setDeaths(tx, to)
	return true, nil
}

// post routes a dead message from the exchange that takes the queue's; false when nobody got
// it.
func (t *settling) post(o core.Offset, why DeathReason, letter *Letter) (bool, error) {
	run, ok, err := t.runOf(o)
	if err != nil || !ok {
		return false, err
	}
	h, err := t.history(o)
	if err != nil {
		return false, err
	}
	return t.s.postLetter(t.tx, t.c, t.of, o, why, run, letter, h, nil)
}

// postLetter routes a message that queue a gives up, with the history that it has so far and
// the refusals that led to it.
func (s *State) postLetter(tx txn, c *cursor, a *ackQueue, o core.Offset, why DeathReason, run core.Run, letter *Letter, h History, led *refusals) (bool, error) {
	exchange, keys := h.Exchange, h.Keys
	if len(keys) == 0 {
		exchange, keys = letter.Exchange, letter.Keys
	}
	h.add(Death{Queue: a.queue.Name, Offset: o, Reason: why, Time: c.time, Exchange: exchange, Keys: keys})
	h.Exchange, h.Keys = a.limits.DeadLetterExchange, keys
	if a.limits.HasDeadLetterKey {
		h.Keys = []string{a.limits.DeadLetterKey}
	}
	p := new(passage)
	for _, k := range h.Keys {
		p.keys = append(p.keys, []byte(k))
	}
	p.setRecord(run, &core.Record{Key: p.keys[0], Headers: letter.Headers, Time: -1})
	p.dead = &deadLetter{history: h, why: why, size: letter.Size, refused: led != nil}
	p.refusals = led
	err := s.routeLetter(tx, c, a.queue.Name.Namespace, a.limits.DeadLetterExchange, p)
	return p.dead.taken, err
}

// routeLetter routes a dead letter. An exchange that does not exist is none. A topic takes no
// reference to an earlier entry of the log, since its partitions are searched by log index.
func (s *State) routeLetter(tx txn, c *cursor, namespace, exchange string, p *passage) error {
	v := s.routing.vhosts[namespace]
	if v == nil {
		return nil
	}
	d, found, err := s.match(tx, c, v, []byte(exchange), p)
	defer s.routing.match.drop(d)
	if err != nil || !found {
		return err
	}
	to := d
	if p.run.Index != c.index {
		to.topicsEnd = to.topics
	}
	if !p.dead.history.spread(to.len(), p.dead.why) {
		return nil
	}
	s.letterWork -= to.len() + 1
	p.dead.taken = to.topicsEnd > to.topics
	_, err = s.deliver(tx, c, p, to)
	return err
}

// deadLetter is what a passage is where the message is dead.
type deadLetter struct {
	history History
	why     DeathReason
	size    int64 // of its body, bytes
	refused bool  // a full queue's refusal of a message that was on its way led to it
	taken   bool  // by somebody
}

// barred reports whether a queue must not get the letter, since it would go round for ever.
func (d *deadLetter) barred(q core.Name) bool {
	return d.why != DeathRejected && d.history.cycles(q)
}

// runOf is the run of one record at an offset.
func (t *settling) runOf(o core.Offset) (core.Run, bool, error) {
	runs, err := t.tx.Runs(t.queue, o, 1, nil)
	if err != nil || len(runs) == 0 || runs[0].Offset > o {
		return core.Run{}, false, err
	}
	run := runs[0]
	run.First += uint32(o - run.Offset)
	run.Count, run.MaxTime = 1, t.c.time
	return run, true, nil
}

// history is what happened to an offset so far.
func (t *settling) history(o core.Offset) (History, error) {
	if t.of.queue == nil || !t.of.queue.Deaths {
		return History{}, nil
	}
	return ReadHistory(t.tx, t.queue, o)
}

// name is what deaths call the queue.
func (t *settling) name() core.Name {
	if q := t.of.queue; q != nil {
		return q.Name
	}
	if p, ok := t.s.all.queues.find(t.queue); ok {
		return p.topic.Name
	}
	return core.Name{}
}

// queueByName finds a named queue in memory or in the KV space.
func (s *State) queueByName(tx txn, n core.Name) (*ackQueue, error) {
	v, ok, err := tx.Get(queueNameKey(n))
	if err != nil || !ok {
		return nil, err
	}
	id, err := decodeQueueID(v)
	if err != nil {
		return nil, err
	}
	return s.ackQueue(tx, id)
}
