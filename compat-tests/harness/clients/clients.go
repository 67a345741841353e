// Package clients has what loads have in common whose clients connect anew whenever they have to: producers,
// which end first, and consumers, which end when everything has come.
package clients

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Clients are the clients of a load. They never stop to wait for a broker. Whoever has them starts and
// ends them, one call at a time.
type Clients struct {
	Addrs []string      // of the brokers; each connection goes to one of them by chance
	Pace  time.Duration // between two bursts of each producer

	// In dials where broker number i can be reached; nil is here.
	In func(i int, dial func() error) error

	stopping atomic.Bool
	produce  sync.WaitGroup
	consume  sync.WaitGroup
	cancels  []context.CancelFunc // of consumers
}

// Broker is one of the brokers: its address, and what calls dial where that can be reached.
func (c *Clients) Broker() (addr string, in func(dial func() error) error) {
	i := rand.IntN(len(c.Addrs))
	return c.Addrs[i], func(dial func() error) error {
		if c.In == nil {
			return dial()
		}
		return c.In(i, dial)
	}
}

// Produce starts a producer, which is to end once Stopping, or when its context does.
func (c *Clients) Produce(run func()) { c.produce.Go(run) }

// Stopping says that producers are to come to an end.
func (c *Clients) Stopping() bool { return c.stopping.Load() }

// Consume starts a consumer, which is to end when its context does: that is ctx until EndConsumers.
func (c *Clients) Consume(ctx context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	c.cancels = append(c.cancels, cancel)
	c.consume.Go(func() { run(ctx) })
}

// EndProducers ends the producers and waits for them.
func (c *Clients) EndProducers() {
	c.stopping.Store(true)
	c.produce.Wait()
}

// EndConsumers ends the consumers and waits for them.
func (c *Clients) EndConsumers() {
	for _, cancel := range c.cancels {
		cancel()
	}
	c.consume.Wait()
}
