package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// broker is a broker of one partition in memory that refuses what it is told to.
type broker struct {
	mu     sync.Mutex
	next   int64
	refuse error
	enough chan struct{} // closed when ten were sent
}

func (b *broker) send(_ Partition, _ []byte, done func(int64, error)) {
	b.mu.Lock()
	offset, err := b.next, b.refuse
	if b.next++; b.next == 10 {
		close(b.enough)
	}
	b.mu.Unlock()
	go done(offset, err)
}

func TestLoad(t *testing.T) {
	for name, c := range map[string]struct {
		refuse error
		acked  bool
		faults bool
	}{
		"acknowledged":  {nil, true, false},
		"given up":      {errors.New("no"), false, true},
		"context's end": {context.Canceled, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := Load{Ledger: New()}
			b := broker{refuse: c.refuse, enough: make(chan struct{})}
			closed, noted := make(chan struct{}), make(chan struct{}, 1)
			l.Start(t.Context(), &Producer{
				Num: 1, Topic: "t", Partitions: 1, Every: time.Millisecond, Burst: 3, Window: 2,
				Size: func(*rand.Rand) int { return 10 }, Send: b.send, Close: func() { close(closed) },
				Noted: func(Partition, int64, ID) {
					select {
					case noted <- struct{}{}:
					default:
					}
				},
			})
			<-b.enough
			l.Stop()
			<-closed
			if acked := l.Acked.Load(); c.acked && (acked != l.Sent.Load() || len(noted) == 0) || !c.acked && acked != 0 {
				t.Errorf("%d of %d acknowledged", acked, l.Sent.Load())
			}
			if wrong, _ := l.Ledger.Wrong(); (wrong > 0) != c.faults {
				t.Errorf("%d failures", wrong)
			}
		})
	}
}
