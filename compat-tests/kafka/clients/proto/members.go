package proto

import (
	"context"
	"fmt"
	"sync"
)

// Members are a driver's members of groups. The zero value has none.
type Members struct {
	mu sync.Mutex
	by map[string]*running // by name; guarded by mu
}

type running struct {
	stop context.CancelFunc
	done chan error
}

// Join runs a member on a goroutine of its own. Run returns when ctx ends, having closed the
// member: what it returns is the outcome of its leaving.
func (m *Members) Join(name string, run func(ctx context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	r := &running{stop: stop, done: make(chan error, 1)}
	m.mu.Lock()
	if m.by == nil {
		m.by = map[string]*running{}
	}
	m.by[name] = r
	m.mu.Unlock()
	go func() { r.done <- run(ctx) }()
}

// Leave is the operation of that name.
func (m *Members) Leave(a Args) (Args, error) {
	m.mu.Lock()
	r := m.by[a["member"]]
	m.mu.Unlock()
	if r == nil {
		return nil, fmt.Errorf("no member %s", a["member"])
	}
	r.stop()
	return nil, <-r.done
}
