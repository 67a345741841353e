package clients

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

// TestEnd: producers are told to end and waited for, and consumers go on until they are ended, or
// their context is.
func TestEnd(t *testing.T) {
	var c Clients
	produced, consumed := false, false
	c.Produce(func() {
		for !c.Stopping() {
			runtime.Gosched()
		}
		produced = true
	})
	running := make(chan context.Context, 1)
	c.Consume(t.Context(), func(ctx context.Context) {
		running <- ctx
		<-ctx.Done()
		consumed = true
	})
	ctx := <-running
	c.EndProducers()
	if !produced || ctx.Err() != nil {
		t.Errorf("the producer has ended: %v; the consumer was told to: %v", produced, ctx.Err())
	}
	c.EndConsumers()
	if !consumed {
		t.Error("a consumer goes on")
	}
}

// TestIn: a connection is dialled where its broker can be reached.
func TestIn(t *testing.T) {
	refused := errors.New("refused")
	c := Clients{Addrs: []string{"a", "b"}}
	addr, in := c.Broker()
	if err := in(func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("%s, here: %v", addr, err)
	}
	var where int
	c.In = func(i int, dial func() error) error { where = i; return dial() }
	addr, in = c.Broker()
	if err := in(func() error { return nil }); err != nil || c.Addrs[where] != addr {
		t.Errorf("%s was dialled at %s: %v", addr, c.Addrs[where], err)
	}
}
