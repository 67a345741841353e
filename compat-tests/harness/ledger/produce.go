package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Load is producers that go on whatever happens to the broker, and never give up a record: each
// that they send and each that is acknowledged is in the ledger.
type Load struct {
	Ledger      *Ledger
	Sent, Acked atomic.Int64

	stopping  atomic.Bool
	producers sync.WaitGroup
}

// stay is how many records a producer sends to one partition before it goes to another, on average:
// batches are of several records then, and so much fewer.
const stay = 8

// Producer is one of them.
type Producer struct {
	Num        int64 // names it in the ledger
	Topic      string
	Partitions int
	Seed       uint64 // of its choices, with Num
	// Every is between two bursts of one to Burst records; Window bounds those that are not
	// acknowledged yet.
	Every         time.Duration
	Burst, Window int
	Size          func(*rand.Rand) int // bytes of a record's body
	// Send sends a record and does not wait. done is called once, by any goroutine, with the
	// offset that was acknowledged, or with why the client gave up, which is a failure of its own,
	// but for the end of its context.
	Send func(p Partition, value []byte, done func(offset int64, err error))
	// Noted, where it is not nil, is called after each acknowledgement.
	Noted func(p Partition, offset int64, id ID)
	Close func() // the client, when everything is acknowledged
}

// Start has p produce until Stop or the end of ctx.
func (l *Load) Start(ctx context.Context, p *Producer) {
	l.producers.Go(func() {
		defer p.Close()
		l.run(ctx, p)
	})
}

// Stop has no more sent, and returns when everything that was sent is acknowledged.
func (l *Load) Stop() {
	l.stopping.Store(true)
	l.producers.Wait()
}

func (l *Load) run(ctx context.Context, p *Producer) {
	rng := rand.New(rand.NewPCG(p.Seed, uint64(p.Num)))
	who := fmt.Sprintf("producer %d", p.Num)
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	var inFlight sync.WaitGroup
	defer inFlight.Wait()
	window := make(chan struct{}, p.Window)
	part := Partition{Topic: p.Topic}
	for seq := int64(0); !l.stopping.Load() && ctx.Err() == nil; {
		<-tick.C
		for range 1 + rng.IntN(p.Burst) {
			id := NewID(p.Num, seq)
			seq++
			if rng.IntN(stay) == 0 {
				part.Num = int32(rng.IntN(p.Partitions))
			}
			to := part
			value := Value(id, p.Size(rng))
			window <- struct{}{}
			inFlight.Add(1)
			l.Sent.Add(1)
			l.Ledger.Sent(to, id)
			p.Send(to, value, func(offset int64, err error) {
				defer func() { <-window; inFlight.Done() }()
				switch {
				case errors.Is(err, context.Canceled):
				case err != nil:
					l.Ledger.Fail("%s: record %v was given up: %v", who, id, err)
				default:
					l.Acked.Add(1)
					l.Ledger.Note(to, offset, id, Ack, who)
					if p.Noted != nil {
						p.Noted(to, offset, id)
					}
				}
			})
		}
	}
}
