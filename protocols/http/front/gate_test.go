package front

import (
	"testing"
	"time"
)

// Calls share a context that ends in time, and with the gate.
func TestGateCall(t *testing.T) {
	g := NewGate()
	if !g.Enter() {
		t.Fatal("closed from the beginning")
	}
	before := time.Now()
	ctx := g.Call()
	end, ok := ctx.Deadline()
	if in := end.Sub(before); !ok || in < CallTimeout {
		t.Errorf("a call has %v", in)
	}
	if again, _ := g.Call().Deadline(); again.Sub(end) > time.Since(before) {
		t.Errorf("the next call has %v more", again.Sub(end))
	}
	g.Leave()
	g.Close()
	<-ctx.Done()
	if g.Enter() || g.Call().Err() == nil {
		t.Error("it is open")
	}
}
