package kafka

import (
	"container/list"
	"math"
	"math/rand/v2"
	"sync"
	"time"

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
	counted int           // its part of cache.parts; guarded by cache.mu

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

// fetchCache holds the sessions of all clients.
type fetchCache struct {
	mu     sync.Mutex // guards what follows; taken before no other lock
	byID   map[int32]*fetchSession
	recent list.List // of *fetchSession, the longest unused first
	parts  int       // of all sessions
}

const (
	// evictAfter is how long a session is safe from eviction by a new one
	// (min.incremental.fetch.session.eviction.ms).
	evictAfter = 2 * time.Minute
	// maxSessionParts bounds the partitions that all sessions remember together.
	maxSessionParts = 1 << 20
)

func newFetchCache() *fetchCache { return &fetchCache{byID: make(map[int32]*fetchSession)} }

// Epochs of a request that mean something else than a position in a session.
const (
	fetchInitialEpoch = 0  // make a session
	fetchFinalEpoch   = -1 // no session, and close the one that is named
)

// open finds out which partitions the request is about, by way of its session. The code
// refuses the whole request.
func (f *fetching) open() int16 {
	c, req := f.call, f.req
	if c.version < fetchSessions {
		f.full, f.parts = true, f.asked()
		return codeNone
	}
	cache := c.srv.fetchSessions
	if req.SessionEpoch == fetchInitialEpoch || req.SessionEpoch == fetchFinalEpoch {
		if req.SessionID != 0 {
			cache.close(req.SessionID)
		}
		f.full, f.parts = true, f.asked()
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
	if !cache.recount(s, len(f.parts)) {
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

// create makes a session for parts, or returns nil when there is no room for one, which
// a client takes as leave to go on without.
func (c *fetchCache) create(owner *conn, parts []fetchPart, byID bool, slots int) *fetchSession {
	if len(parts) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.byID) >= slots || c.parts+len(parts) > maxSessionParts {
		oldest := c.recent.Front()
		if oldest == nil || time.Since(oldest.Value.(*cachedSession).used) < evictAfter {
			return nil
		}
		c.removeLocked(oldest.Value.(*cachedSession).session)
	}
	s := &fetchSession{conn: owner, byID: byID, cache: c, epoch: 1, parts: make(map[fetchKey]*list.Element, len(parts))}
	for s.id == 0 || c.byID[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32)
	}
	for _, p := range parts {
		s.put(p)
	}
	c.byID[s.id] = s
	s.counted = len(s.parts)
	c.parts += s.counted
	s.entry = c.recent.PushBack(&cachedSession{session: s, used: time.Now()})
	return s
}

// cachedSession is a session's place in the cache's order.
type cachedSession struct {
	session *fetchSession
	used    time.Time
}

// find returns a session, nil when there is none, and notes that it is in use.
func (c *fetchCache) find(id int32) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[id]
	if s != nil {
		s.entry.Value.(*cachedSession).used = time.Now()
		c.recent.MoveToBack(s.entry)
	}
	return s
}

func (c *fetchCache) close(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byID[id]; s != nil {
		c.removeLocked(s)
	}
}

// closeAll drops the sessions that a connection has made.
func (c *fetchCache) closeAll(owner *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.byID {
		if s.conn == owner {
			c.removeLocked(s)
		}
	}
}

func (c *fetchCache) removeLocked(s *fetchSession) {
	delete(c.byID, s.id)
	c.recent.Remove(s.entry)
	c.parts -= s.counted
	s.counted = 0
}

// recount notes how many partitions a session has now. It reports false, and drops the
// session, when they are too many for the cache.
func (c *fetchCache) recount(s *fetchSession, parts int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[s.id] != s {
		return true // closed meanwhile; this last request is served
	}
	c.parts += parts - s.counted
	s.counted = parts
	if c.parts > maxSessionParts {
		c.removeLocked(s)
		return false
	}
	return true
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
