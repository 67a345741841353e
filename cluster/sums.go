package cluster

import "sync"

// entrySums takes the checksums of entries past raft, which has no place for them, from
// the proposer to the log store. An entry is known by where its data lies.
type entrySums struct {
	mu sync.Mutex
	of map[*byte]uint32 // guarded by mu; by the first byte, of at most MaxInFlight entries
}

// put remembers the CRC32C of data, which is not empty.
func (s *entrySums) put(data []byte, sum uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[*byte]uint32)
	}
	s.of[&data[0]] = sum
}

// take gives what put remembered, once.
func (s *entrySums) take(data []byte) (sum uint32, ok bool) {
	if len(data) == 0 {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sum, ok = s.of[&data[0]]; ok {
		delete(s.of, &data[0])
	}
	return sum, ok
}
