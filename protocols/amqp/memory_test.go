package amqp

import (
	"testing"
	"time"

	"polylog/protocols/amqp/spec"
)

// publishedLarge publishes on channel 1, which is in confirm mode, and waits for the confirm,
// whatever else it is told meanwhile.
func (c *client) publishedLarge(body []byte) error {
	_, err := c.nc.Write(publication(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, body, 60_000))
	for err == nil {
		var payload []byte
		if _, payload, err = c.next(); err == nil && spec.PeekMethod(payload) == spec.BasicAckID {
			return nil
		}
	}
	return err
}

func (f *fixture) confirming() *client {
	f.t.Helper()
	c := f.channel()
	c.send(1, &spec.ConfirmSelect{})
	recv[*spec.ConfirmSelectOk](c, 1)
	return c
}

// TestStalledUpload gives up who holds all memory with a message that does not come, so that
// whoever waits for it can publish.
func TestStalledUpload(t *testing.T) {
	f := start(t, func(o *Options) {
		o.MessageMemory, o.stall, o.heartbeatUnit = 1<<20, 20*time.Millisecond, 20*time.Millisecond
	})
	holder := f.channel()
	holder.write(spec.AppendMethod(nil, 1, &spec.BasicPublish{RoutingKey: "k"}))
	holder.write(spec.AppendHeader(nil, 1, 1<<20, &spec.Properties{}))
	holder.write(spec.AppendBody(nil, 1, make([]byte, 60_000)))
	waitFor(t, func() bool { return f.server.memory.held() == 1<<20 })
	c := f.confirming()
	c.write(publication(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, []byte("x"), 1))
	holder.told(spec.ResourceError, "RESOURCE_ERROR - others wait for the memory of a message that comes too slowly", spec.BasicPublishID)
	for {
		if _, payload, err := c.next(); err != nil {
			t.Fatal(err)
		} else if spec.PeekMethod(payload) == spec.BasicAckID {
			return
		}
	}
}

// TestLargeMessagesInTurn has more large messages at once than there is memory for: each is
// confirmed, for none begins that cannot be finished.
func TestLargeMessagesInTurn(t *testing.T) {
	f := start(t, func(o *Options) { o.MessageMemory = 2 << 20 })
	const clients = 8
	ended := make(chan error, clients)
	for range clients {
		c := f.confirming()
		go func() { ended <- c.publishedLarge(make([]byte, 1<<20)) }()
	}
	for range clients {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestTransactionsAndMemory: what a transaction has published counts until it ends, up to a half of all. Nobody waits for
// it, whatever he publishes, and one message alone may be of any size.
func TestTransactionsAndMemory(t *testing.T) {
	f := start(t, func(o *Options) { o.MessageMemory = 1 << 20 })
	large := make([]byte, 3<<19)
	c := f.channel()
	c.send(1, &spec.TxSelect{})
	recv[*spec.TxSelectOk](c, 1)
	c.publish(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, large)
	c.send(1, &spec.TxCommit{})
	recv[*spec.TxCommitOk](c, 1)
	c.publish(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, []byte("small"))
	waitFor(t, func() bool { return f.server.memory.held() > publishCost })
	if err := f.confirming().publishedLarge(large); err != nil {
		t.Fatal(err)
	}
	c.publish(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, large)
	c.channelClosed(1, 406, "PRECONDITION_FAILED - transactions that are open have half of the memory for messages", spec.BasicPublishID)
	waitFor(t, func() bool { return f.server.memory.held() == 0 })
}

// TestMemoryTurns is who gets memory when, without connections.
func TestMemoryTurns(t *testing.T) {
	m := memory{limit: 100, uploads: map[*upload]struct{}{}}
	a, b, whole := &upload{size: 80}, &upload{size: 50}, &upload{size: 1000}
	if m.reserve(a, false) != nil {
		t.Fatal("an upload had to wait for nobody")
	}
	wb := m.reserve(b, false)
	small := m.enter()
	if wb == nil || small == nil {
		t.Fatal("there was no memory, and then somebody in front")
	}
	second := m.reserve(&upload{size: 10}, true)
	if second != nil {
		t.Fatal("who has begun and has room goes first")
	}
	first := m.reserve(&upload{size: 90}, true)
	if first == nil || m.waiting[0] != first {
		t.Fatal("who has begun waits in front")
	}
	m.leave(first)
	if isReady(wb) || isReady(small) {
		t.Fatal("there was no memory for them yet")
	}
	m.release(a)
	if !isReady(wb) || !isReady(small) || m.held() != 60 {
		t.Fatalf("%d bytes are held", m.held())
	}
	w := m.reserve(whole, false) // larger than the limit: when nothing else is there
	m.add(-10)
	m.leave(wb) // it had got it
	if !isReady(w) || m.held() != 1000 {
		t.Fatalf("%d bytes are held", m.held())
	}
	m.release(whole)
	m.release(whole)
	if m.held() != 0 || len(m.waiting) != 0 {
		t.Errorf("%d bytes are held, %d wait", m.held(), len(m.waiting))
	}
}

func isReady(w *waiter) bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// TestStalled is which uploads are given up, on a clock of its own.
func TestStalled(t *testing.T) {
	m := memory{limit: 100, uploads: map[*upload]struct{}{}}
	u := &upload{size: 10 << 20}
	m.bytes = -u.size // for it to fit
	if m.reserve(u, false) != nil {
		t.Fatal("it waits")
	}
	m.add(1000) // nobody else may begin
	at := time.Unix(1000, 0)
	look := func(after time.Duration, gained int64, stalled int) {
		t.Helper()
		u.got.Add(gained)
		at = at.Add(after)
		if us := m.stalled(at, 30*time.Second); len(us) != stalled {
			t.Errorf("%d are stalled, want %d", len(us), stalled)
		}
	}
	look(0, 0, 0)
	look(time.Hour, 0, 0) // nobody waits
	w := m.enter()
	look(29*time.Second, 0, 0)
	look(0, minGain, 0)
	look(29*time.Second, minGain-1, 0)
	look(time.Second, 0, 1)
	look(0, 1, 0)
	look(time.Minute, u.size-u.got.Load(), 0) // it is whole: the rest is not its sender's
	m.leave(w)
}
