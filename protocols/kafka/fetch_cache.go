package kafka

import (
	"container/list"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// fetchCache holds the sessions of all clients.
type fetchCache struct {
	mu     sync.Mutex // guards what follows; taken before no other lock
	byID   map[int32]*fetchSession
	recent list.List // of *fetchSession, the longest unused first
	bytes  int       // of all sessions' partitions
}

const (
	// evictAfter is how long a session is safe from eviction by a new one
	// (min.incremental.fetch.session.eviction.ms).
	evictAfter = 2 * time.Minute
	// maxSessionBytes bounds the memory of what all sessions remember together.
	maxSessionBytes = 16 << 20
	// maxUnknownParts bounds the partitions of a session that do not exist.
	maxUnknownParts = 1000
)

func newFetchCache() *fetchCache { return &fetchCache{byID: make(map[int32]*fetchSession)} }

// create makes a session for parts, or returns nil when there is no room for one, which
// a client takes as leave to go on without.
func (c *fetchCache) create(owner *conn, parts []fetchPart, byID bool, slots int) *fetchSession {
	size := 0
	for i := range parts {
		size += parts[i].size()
	}
	if size == 0 || size > maxSessionBytes || unknown(parts) > maxUnknownParts {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.byID) >= slots || c.bytes+size > maxSessionBytes {
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
	s.counted = size
	c.bytes += s.counted
	s.entry = c.recent.PushBack(&cachedSession{session: s, used: time.Now()})
	return s
}

// cachedSession is a session's place in the cache's order.
type cachedSession struct {
	session *fetchSession
	used    time.Time
}

// len is the number of sessions.
func (c *fetchCache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
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
	c.bytes -= s.counted
	s.counted = 0
}

// recount notes what a session takes now. It reports false, and drops the session, when
// that is too much for the cache, or too many of its partitions do not exist.
func (c *fetchCache) recount(s *fetchSession, parts []fetchPart) bool {
	size := 0
	for i := range parts {
		size += parts[i].size()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[s.id] != s {
		return true // closed meanwhile; this last request is served
	}
	c.bytes += size - s.counted
	s.counted = size
	if c.bytes > maxSessionBytes || unknown(parts) > maxUnknownParts {
		c.removeLocked(s)
		return false
	}
	return true
}

// size is about what a session takes for the partition.
func (p *fetchPart) size() int { return partBytes + len(p.topic) }

// unknown is how many of the resolved parts do not exist.
func unknown(parts []fetchPart) (n int) {
	for i := range parts {
		if code := parts[i].code; code == codeUnknownTopicOrPartition || code == codeUnknownTopicID {
			n++
		}
	}
	return n
}
