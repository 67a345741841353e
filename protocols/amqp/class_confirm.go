package amqp

import (
	"context"
	"sync"

	"polylog/protocols/amqp/spec"
)

// confirmSelect is confirm.select: from now on publishes are numbered and confirmed.
func (ch *channel) confirmSelect(_ context.Context, m *spec.ConfirmSelect) error {
	if ch.tx != nil {
		return soft(spec.PreconditionFailed, "cannot switch from tx to confirm mode")
	}
	ch.confirms.mu.Lock()
	ch.confirms.on = true
	ch.confirms.mu.Unlock()
	ch.reply(m.NoWait, &spec.ConfirmSelectOk{})
	return nil
}

// confirms are the publishes of a channel that were not confirmed yet. They are confirmed in
// their order, as many with one method as the writer finds when it comes by.
type confirms struct {
	turn
	ch *channel
	on bool // written by the reader, under mu

	mu      sync.Mutex // guards what follows
	last    uint64     // number of the last publish
	pending []verdict  // of the last ones, in their order
}

// verdict is what became of a publish.
type verdict uint8

const (
	undecided verdict = iota
	acked
	nacked
)

// number gives a publish its number; 0 where none is wanted.
func (f *confirms) number() uint64 {
	if !f.on {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.pending = append(f.pending, undecided)
	return f.last
}

// settle says what became of a publish.
func (f *confirms) settle(seq uint64, ok bool) {
	v := nacked
	if ok {
		v = acked
	}
	f.mu.Lock()
	i := len(f.pending) - 1 - int(f.last-seq)
	f.pending[i] = v
	f.mu.Unlock()
	if i == 0 {
		f.ch.conn.ready(f)
	}
}

// feed implements source.
func (f *confirms) feed() {
	for {
		v, tag, n := f.take()
		switch v {
		case undecided:
			return
		case acked:
			f.ch.send(&spec.BasicAck{DeliveryTag: tag, Multiple: n > 1})
		case nacked:
			f.ch.send(&spec.BasicNack{DeliveryTag: tag, Multiple: n > 1})
		}
	}
}

// take takes the first publishes of one verdict, up to tag, n of them.
func (f *confirms) take() (v verdict, tag uint64, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) == 0 || f.pending[0] == undecided {
		return undecided, 0, 0
	}
	v = f.pending[0]
	for n < len(f.pending) && f.pending[n] == v {
		n++
	}
	tag = f.last - uint64(len(f.pending)-n)
	if f.pending = f.pending[n:]; len(f.pending) == 0 {
		f.pending = nil
	}
	return v, tag, n
}
