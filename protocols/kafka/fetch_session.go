package kafka

import (
	"container/list"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// fetchKey names a partition in a fetch: by topic name, or by id from version 13 on.
type fetchKey struct {
	topic     string
	id        core.TopicID
	partition int32
}

// fetchSession is what the broker remembers of a client's fetches (KIP-227), so that a
// request names only what changed and an answer only what is new.
type fetchSession struct {
	id      int32
	conn    *conn // that made it; it dies with it
	byID    bool  // topics are named by id
	cache   *fetchCache
	entry   *list.Element // in cache.recent; guarded by cache.mu
	counted int           // its part of cache.bytes; guarded by cache.mu

	mu    sync.Mutex // guards what follows
	epoch int32      // of the next request
	parts map[fetchKey]*list.Element
	order list.List // of *sessionPart: who was answered with records goes to the end
}

// sessionPart is a partition of a session: what the client wants, and what it knows.
type sessionPart struct {
	fetchPart
	high, from int64
}

// Epochs of a request that mean something else than a position in a session.
const (
	fetchInitialEpoch = 0  // make a session
	fetchFinalEpoch   = -1 // no session, and close the one that is named
)

// open finds out which partitions the request is about, by way of its session, and
// resolves them. The code
// refuses the whole request.
func (f *fetching) open() int16 {
	c, req := f.call, f.req
	if c.version < fetchSessions {
		f.full, f.parts = true, f.asked()
		f.resolve()
		return codeNone
	}
	cache := c.srv.fetchSessions
	if req.SessionEpoch == fetchInitialEpoch || req.SessionEpoch == fetchFinalEpoch {
		if req.SessionID != 0 {
			cache.close(req.SessionID)
		}
		f.full, f.parts = true, f.asked()
		f.resolve()
		if req.SessionEpoch == fetchInitialEpoch {
			f.session = cache.create(c.conn, f.parts, c.version >= fetchTopicID, c.srv.router.BrokerConfig().FetchSessionSlots)
		}
		return codeNone
	}
	s := cache.find(req.SessionID)
	if s == nil {
		return codeFetchSessionIDNotFound
	}
	if s.byID != (c.version >= fetchTopicID) {
		return codeFetchSessionTopicIDError
	}
	f.session = s
	if code := s.next(f); code != codeNone {
		return code
	}
	f.resolve()
	if !cache.recount(s, f.parts) {
		return codeFetchSessionIDNotFound // the client goes on with a full fetch
	}
	return codeNone
}

// next moves the session on by a request, whose partitions are then the session's.
func (s *fetchSession) next(f *fetching) int16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.req.SessionEpoch != s.epoch {
		return codeInvalidFetchSessionEpoch
	}
	if s.epoch == math.MaxInt32 {
		s.epoch = 0
	}
	s.epoch++
	s.change(f)
	f.parts = make([]fetchPart, 0, s.order.Len())
	for e := s.order.Front(); e != nil; e = e.Next() {
		f.parts = append(f.parts, e.Value.(*sessionPart).fetchPart)
	}
	return codeNone
}

// asked is the partitions that the request itself names.
func (f *fetching) asked() []fetchPart {
	n := 0
	for i := range f.req.Topics {
		n += len(f.req.Topics[i].Partitions)
	}
	parts := make([]fetchPart, 0, n)
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			parts = append(parts, fetchPart{
				fetchKey:    fetchKey{topic: t.Topic, id: t.TopicID, partition: p.Partition},
				offset:      core.Offset(p.FetchOffset),
				maxBytes:    p.PartitionMaxBytes,
				epoch:       p.CurrentLeaderEpoch,
				lastFetched: p.LastFetchedEpoch,
			})
		}
	}
	return parts
}

// put adds or changes a partition. The caller holds s.mu, or owns s alone.
func (s *fetchSession) put(p fetchPart) {
	if e := s.parts[p.fetchKey]; e != nil {
		e.Value.(*sessionPart).fetchPart = p
		return
	}
	s.parts[p.fetchKey] = s.order.PushBack(&sessionPart{fetchPart: p, high: -1, from: -1})
}

// change applies the request's news to the session. The caller holds s.mu.
func (s *fetchSession) change(f *fetching) {
	for _, p := range f.asked() {
		s.put(p)
	}
	drop := func(t *kmsg.FetchRequestForgottenTopic) {
		for _, n := range t.Partitions {
			key := fetchKey{topic: t.Topic, id: t.TopicID, partition: n}
			if e := s.parts[key]; e != nil {
				s.order.Remove(e)
				delete(s.parts, key)
			}
		}
	}
	for i := range f.req.ForgottenTopics {
		drop(&f.req.ForgottenTopics[i])
	}
}

// update notes what the client is about to learn and, unless the answer is full, takes
// the partitions without news out of it.
func (s *fetchSession) update(f *fetching) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := f.parts[:0]
	for i := range f.parts {
		p := &f.parts[i]
		a := &p.answer
		e := s.parts[p.fetchKey]
		news := f.full || e == nil || a.code != codeNone || a.size > 0 || a.diverging
		if e != nil {
			known := e.Value.(*sessionPart)
			news = news || known.high != a.high || known.from != a.from
			known.high, known.from = a.high, a.from
			if a.code != codeNone {
				known.high = -1 // so that recovery is news
			}
			if a.size > 0 {
				s.order.MoveToBack(e)
			}
		}
		if news {
			kept = append(kept, *p)
		}
	}
	f.parts = kept
}
