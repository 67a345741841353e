package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// Version 7 brought sessions, 12 epochs and tagged fields, 13 topic ids, 16 leader
// hints. Nothing is ever converted: version 4 is the first with format 2.
const (
	fetchMin      = 4
	fetchMax      = 18
	fetchSessions = 7
	fetchTopicID  = 13
	fetchHints    = 16
)

const readCommitted = 1

// crowdedFetchBytes is what one fetch gets while the answers that wait for slow
// readers already fill Options.FetchMemory.
const crowdedFetchBytes = 64 << 10

// fetchPart is one partition of a fetch: what is asked, then what is answered.
type fetchPart struct {
	fetchKey
	offset      core.Offset
	maxBytes    int32
	epoch       int32 // that the client believes in; -1: none
	lastFetched int32 // epoch of the record before offset; -1: unknown

	queue core.QueueID
	code  int16 // of a part that cannot be read; decided before the first look

	answer fetchAnswer
}

// fetchAnswer is a partition's answer after the last look.
type fetchAnswer struct {
	code               int16
	high, stable, from int64 // high watermark, last stable offset, log start offset
	batches            []router.Batch
	size               int // of batches
	diverging          bool
	divergingEpoch     int32
	divergingEnd       int64
}

// fetching is a Fetch under way.
type fetching struct {
	call     *call
	req      *kmsg.FetchRequest
	session  *fetchSession // nil: none
	full     bool          // every partition is answered, not only those with news
	parts    []fetchPart
	maxBytes int
	found    int       // bytes that the last look has found
	held     int64     // of the server's FetchMemory: those of them that are in memory
	parked   hold      // while it waits
	waits    bool      // rights may have changed since the last look
	term     core.Term // of the leadership that parts were resolved in; 0: this node did not lead

	batches router.Batches
}

// fetch answers at once when there is an error, enough data, or no wish to wait; else
// it waits for records on a goroutine of its own.
func fetch(ctx context.Context, c *call, req *kmsg.FetchRequest) {
	f := &fetching{call: c, req: req}
	if code := f.open(); code != codeNone {
		resp := kmsg.NewPtrFetchResponse()
		resp.ErrorCode = code
		c.reply(resp)
		return
	}
	f.maxBytes = min(int(max(req.MaxBytes, 0)), c.srv.router.BrokerConfig().FetchMaxBytes)
	if f.look() || req.MaxWaitMillis <= 0 {
		f.answer()
		return
	}
	f.forget()
	f.waits = true
	c.background(ctx, f.wait)
}

// wait looks again whenever one of the queues grows or the leader changes, until there is
// enough, the client's patience ends, or the connection does.
func (f *fetching) wait(ctx context.Context) {
	wake := make(chan struct{}, 1)
	queues := make([]core.QueueID, 0, len(f.parts))
	for i := range f.parts {
		if f.parts[i].code == codeNone {
			queues = append(queues, f.parts[i].queue)
		}
	}
	stop := f.call.srv.router.Watch(queues, func() { signal(wake) })
	defer stop()
	timer := time.NewTimer(f.park())
	defer timer.Stop()
	defer f.parked.release()
	for { // the first look catches what came before Watch
		leader := f.call.srv.router.LeaderChanged()
		if f.look() {
			break
		}
		f.forget()
		if f.found > busyLook {
			// Much is there, yet not enough: do not read it again for each record
			// that comes.
			pause := time.NewTimer(busyPause)
			more := sleep(ctx, f, pause.C, leader, timer.C)
			pause.Stop()
			if !more {
				break
			}
		}
		if !sleep(ctx, f, wake, leader, timer.C) {
			break
		}
	}
	if ctx.Err() != nil {
		f.forget()
		f.call.drop()
		return
	}
	f.answer()
}

// park gives up the request's memory for the time of the wait, and returns how long that
// may be. What is left of the request counts in a budget of its own; where that is used
// up the wait is short, and the client asks again.
func (f *fetching) park() time.Duration {
	srv := f.call.srv
	patience := min(time.Duration(f.req.MaxWaitMillis)*time.Millisecond, maxFetchWait)
	f.parked = srv.parkedBytes.hold(int64(len(f.parts)) * partBytes)
	if !f.parked.tryTake() {
		return min(patience, crowdedFetchWait)
	}
	f.req.Topics, f.req.ForgottenTopics = nil, nil
	f.call.park()
	return patience
}

const (
	maxFetchWait     = 5 * time.Minute
	crowdedFetchWait = 500 * time.Millisecond
	// partBytes is about what one partition of a waiting fetch takes.
	partBytes = 320
)

const (
	busyLook  = 256 << 10 // bytes
	busyPause = 10 * time.Millisecond
)

// sleep waits for wake or another leader. When something else ends the wait for good, it
// takes the last look and returns false.
func sleep[T any](ctx context.Context, f *fetching, wake <-chan T, leader <-chan struct{}, expired <-chan time.Time) bool {
	select {
	case <-wake:
		return true
	case <-leader:
		return true
	case <-expired:
	case <-f.call.srv.stopping:
	case <-ctx.Done():
		return false
	}
	f.look()
	return false
}

// leading is the term in which this node leads, 0 where it does not.
func (s *Server) leading() core.Term {
	term := s.router.Term()
	if !s.router.IsLeader() || s.router.Term() != term {
		return 0
	}
	return term
}

// resolve finds the parts' queues, or the codes for there being none. Parts of one topic
// mostly follow each other: it is looked up once for all of them. A node that does not lead
// says no more than that: what it knows of topics may be old.
func (f *fetching) resolve() {
	c := f.call
	f.term = c.srv.leading()
	var topic *router.Topic
	var code int16
	for i := range f.parts {
		p := &f.parts[i]
		if f.term == 0 {
			p.code = codeNotLeaderOrFollower
			continue
		}
		if i == 0 || p.topic != f.parts[i-1].topic || p.id != f.parts[i-1].id {
			topic, code = c.topicFor(router.OpRead, p.topic, p.id, c.version >= fetchTopicID)
		}
		p.code = code
		if topic == nil {
			continue
		}
		var ok bool
		p.queue, ok = topic.Queue(p.partition)
		switch {
		case !ok:
			p.code = codeUnknownTopicOrPartition
		default:
			p.code = leaderEpochCode(p.epoch, int32(f.term))
		}
	}
}

// recheck refuses the parts that the client may no longer read.
func (f *fetching) recheck() {
	c := f.call
	if !c.srv.router.HasUsers() {
		return
	}
	var code int16
	for i := range f.parts {
		p := &f.parts[i]
		if i == 0 || p.topic != f.parts[i-1].topic || p.id != f.parts[i-1].id {
			_, code = c.topicFor(router.OpRead, p.topic, p.id, c.version >= fetchTopicID)
		}
		if code == codeTopicAuthorizationFailed {
			p.code = code
		}
	}
}

// look reads every part and reports whether that is worth answering with.
func (f *fetching) look() bool {
	if f.call.srv.leading() != f.term { // since the last look
		f.resolve()
	} else if f.waits {
		f.recheck()
	}
	budget := f.maxBytes
	if free := f.call.srv.freeFetchBytes(); free < budget {
		budget = max(free, min(budget, crowdedFetchBytes))
	}
	news, got := false, 0
	for i := range f.parts {
		p := &f.parts[i]
		p.answer = fetchAnswer{code: p.code, high: -1, stable: -1, from: -1}
		if p.code == codeNone {
			f.read(p, budget-got, got == 0)
			got += p.answer.size
		}
		news = news || p.answer.code != codeNone || p.answer.diverging
	}
	f.found = got
	f.held += int64(f.batches.Held)
	f.call.srv.fetchHeld.Add(int64(f.batches.Held))
	return news || got >= int(f.req.MinBytes)
}

// read fills a part's answer with at most budget bytes, except that the first batch of
// a fetch may be larger (KIP-74).
func (f *fetching) read(p *fetchPart, budget int, first bool) {
	a := &p.answer
	r := f.call.srv.router
	if p.lastFetched >= 0 {
		epoch, end, err := r.EpochEnd(p.queue, core.Term(p.lastFetched))
		if err == nil && (int32(epoch) < p.lastFetched || end < p.offset) {
			a.diverging, a.divergingEpoch, a.divergingEnd = true, int32(epoch), int64(end)
			budget = 0
		}
	}
	before := len(f.batches.Items)
	head, err := r.Read(p.queue, p.offset, router.ReadOptions{
		MaxBytes:   max(min(int(p.maxBytes), budget), 0),
		AtLeastOne: first && !a.diverging,
		Lend:       true,
	}, &f.batches)
	if err != nil {
		a.code = f.errorCode(p, err)
		return
	}
	a.high, a.stable, a.from = int64(head.End), int64(head.Stable), int64(head.Start)
	a.batches = f.batches.Items[before:len(f.batches.Items):len(f.batches.Items)]
	if f.req.IsolationLevel == readCommitted {
		for i, b := range a.batches {
			if b.Offset >= head.Stable {
				a.batches = a.batches[:i]
				break
			}
		}
	}
	for i := range a.batches {
		a.size += a.batches[i].Len()
	}
}

// errorCode is the code for a part that could not be read.
func (f *fetching) errorCode(p *fetchPart, err error) int16 {
	c := f.call
	switch core.KindOf(err) {
	case core.NotFound:
		if _, herr := c.srv.router.Head(p.queue); core.KindOf(herr) == core.NotFound { // deleted meanwhile
			return c.unknownTopic(fetchTopicID)
		}
		fallthrough // the log lacks what the index knows of
	case core.Corrupt:
		if c.srv.metrics.storageErrors.Add(1)&(1<<10-1) == 1 { // clients will ask again and again
			c.conn.log.Error("kafka fetch cannot read the log", "topic", p.topic, "id", p.id, "partition", p.partition, "offset", p.offset, "err", err)
		}
		return codeStorageError // retriable, unlike what a client makes of its own CRC check
	default:
		return code(err)
	}
}

// forget gives back what a look has read.
func (f *fetching) forget() {
	f.batches.Release()
	f.call.srv.fetchHeld.Add(-f.held)
	f.held = 0
	for i := range f.parts {
		f.parts[i].answer.batches = nil
	}
}

// answer sends what the last look has found.
func (f *fetching) answer() {
	id := int32(0)
	if f.session != nil {
		id = f.session.id
		f.session.update(f)
	}
	f.call.replyRaw(f.encode(id))
}
