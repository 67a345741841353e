package router

import (
	"sync"
	"time"

	"polylog/core"
	"polylog/router/state"
)

// Address is where a message is published.
type Address struct {
	Exchange core.Name // the default exchange has the name ""
	// Keys are the routing key and then others that it is also routed by, as AMQP's CC and
	// BCC; from 1 to 1,024, of up to 4,096 bytes each.
	Keys []string
}

// Routed is what became of a message.
type Routed struct {
	Queues   int   // queues and topics that it was for: 0 when nobody got it
	Rejected bool  // one of them is full and did not take it; others may have
	Err      error // nothing of it was done
}

// PublishTo publishes a message to an exchange. It is stored once, however many queues it is
// for. done is called once, maybe before PublishTo returns, and must not block; with calls
// by one goroutine it runs in their order.
//
// batch is one record, built by core.BatchBuilder without compression and producer. It
// belongs to the router until done; the address does only until PublishTo returns.
//
// An exchange of which there is none, but a topic of that name, is the topic's: the message
// is appended to it, too. The default exchange sends to the queue that the key names, or to
// the topic.
//
// Error kinds: NotFound (no exchange, a MissingError), Denied (also for internal ones),
// TooLarge, Invalid, Unavailable, NotLeader, Uncertain.
func (r *Router) PublishTo(p Principal, a Address, batch []byte, done func(Routed)) {
	if err := r.checkPublish(p, &a, batch); err != nil {
		r.met.refused(err)
		done(Routed{Err: err})
		return
	}
	t, _ := passages.Get().(*passage)
	if t == nil {
		t = &passage{}
		t.done = t.settled
	}
	t.router, t.exchange, t.bytes, t.began, t.told = r, a.Exchange, len(batch), r.clock(), done
	c := state.PublishCommandIn(t.head[:0], a.Exchange, a.Keys, batch)
	t.head = c.Head
	c.CheckedLen, c.CheckedCRC = core.BatchChecked(batch)
	r.log.ProposeAsync(c, t.done)
}

// passage is a message on its way to an exchange. It is pooled with what its proposal takes, since
// there is one for every message: until done is called, the head is the log's.
type passage struct {
	router   *Router
	exchange core.Name
	bytes    int
	began    time.Time
	told     func(Routed)

	head []byte
	done func(core.Result, error) // its own settled
}

var passages sync.Pool

// settled tells what became of the message.
func (t *passage) settled(res core.Result, err error) {
	r, told := t.router, t.told
	if err == nil && res.Err != nil {
		if err = res.Err; res.Err.Kind == core.NotFound {
			err = missingExchange(t.exchange)
		}
	}
	out := Routed{Err: err}
	if err != nil {
		r.met.refused(err)
	} else {
		out.Queues, out.Rejected = int(res.Offset), res.Start != 0
		r.met.published(1, t.bytes, r.clock().Sub(t.began))
		r.met.routed(&out)
	}
	t.router, t.exchange, t.told = nil, core.Name{}, nil
	if cap(t.head) <= maxPooledHead {
		passages.Put(t)
	}
	told(out)
}

// maxPooledHead bounds the memory that a pooled passage keeps, in bytes.
const maxPooledHead = 1 << 10

// minMessageLimit is for messages of 16 MiB, AMQP's usual limit, and their headers: Kafka's
// message.max.bytes can only allow more.
const minMessageLimit = 17 << 20

// checkPublish refuses what can be refused before it is in the log.
func (r *Router) checkPublish(p Principal, a *Address, batch []byte) error {
	if err := r.state.Supports(state.CodePublish); err != nil {
		return err
	}
	if err := r.auth.Authorize(p, OpWrite, exchangeResource(a.Exchange)); err != nil {
		return err
	}
	if len(a.Keys) < 1 || len(a.Keys) > state.MaxKeys {
		return core.E(core.Invalid, "publish with %d keys, want 1 to %d", len(a.Keys), state.MaxKeys)
	}
	for _, k := range a.Keys {
		if len(k) > state.MaxKey {
			return core.E(core.TooLarge, "a routing key of %d bytes, at most %d are allowed", len(k), state.MaxKey)
		}
	}
	if limit := max(r.BrokerConfig().MessageMaxBytes, minMessageLimit); len(batch) > limit {
		return core.E(core.TooLarge, "message of %d bytes, at most %d are allowed", len(batch), limit)
	}
	if len(batch) < core.BatchHeaderLen {
		return core.E(core.Invalid, "not a record batch: %d bytes", len(batch))
	}
	return nil
}
