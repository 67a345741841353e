package main

import (
	"testing"
	"time"
)

func TestGaps(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	g := &gaps{last: at(0)}
	g.ack(at(9))
	g.begin()
	g.ack(at(10))
	g.ack(at(13))
	g.ack(at(14))
	if got := g.end(at(15)); got != 3*time.Second {
		t.Errorf("longest gap %v, want 3s", got)
	}
	if got := g.end(at(20)); got != 6*time.Second {
		t.Errorf("a gap that goes on is %v, want 6s", got)
	}
}
