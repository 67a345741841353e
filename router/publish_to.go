package router

import (
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
// belongs to the router until done.
//
// An exchange of which there is none, but a topic of that name, is the topic's: the message
// is appended to it, too. The default exchange sends to the queue that the key names, or to
// the topic.
//
// Error kinds: NotFound (no exchange, a MissingError), Denied (also for internal ones),
// TooLarge, Invalid, Unavailable, NotLeader, Uncertain.
func (r *Router) PublishTo(p Principal, a Address, batch []byte, done func(Routed)) {
	refuse := func(err error) {
		r.met.refused(err)
		done(Routed{Err: err})
	}
	if err := r.checkPublish(p, &a, batch); err != nil {
		refuse(err)
		return
	}
	began := r.clock()
	c := state.PublishCommand(a.Exchange, a.Keys, batch)
	c.CheckedLen, c.CheckedCRC = core.BatchChecked(batch)
	r.log.ProposeAsync(c, func(res core.Result, err error) {
		if err == nil && res.Err != nil {
			if err = res.Err; res.Err.Kind == core.NotFound {
				err = missingExchange(a.Exchange)
			}
		}
		if err != nil {
			refuse(err)
			return
		}
		out := Routed{Queues: int(res.Offset), Rejected: res.Start != 0}
		r.met.published(1, len(batch), r.clock().Sub(began))
		r.met.routed(&out)
		done(out)
	})
}

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
