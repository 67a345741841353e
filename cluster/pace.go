package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// An AppendEntries call has up to maxAppendBytes of entries, or minAppendBytes on a link or to a disk that is so slow that
// calls take half a lease: what comes behind a large call, heartbeats too, waits for it, and nothing is committed meanwhile.
const (
	maxAppendBytes = 4 << 20
	minAppendBytes = 64 << 10
)

// pace is how large the calls to each follower may be.
type pace struct {
	mu    sync.Mutex
	limit map[raft.ServerID]int // guarded by mu: bytes; absent: maxAppendBytes
}

func newPace() *pace { return &pace{limit: map[raft.ServerID]int{}} }

// of is how many bytes of entries the next call to a follower may have.
func (p *pace) of(id raft.ServerID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, ok := p.limit[id]; ok {
		return n
	}
	return maxAppendBytes
}

// took notes how long a call with so many bytes of entries has taken: a slow one halves what the next may have, a
// quick one that had half of what it might doubles it.
func (p *pace) took(id raft.ServerID, bytes int, d, lease time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, slow := p.limit[id]
	switch {
	case d > lease/2:
		p.limit[id] = max(minAppendBytes, min(bytes, maxAppendBytes)/2)
	case !slow || bytes < n/2 || d > lease/4:
	case 2*n < maxAppendBytes:
		p.limit[id] = 2 * n
	default:
		delete(p.limit, id)
	}
}
