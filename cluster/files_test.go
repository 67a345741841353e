package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{rate: 1000}
		begin := time.Now()
		for range 50 {
			must(t, p.wait(t.Context(), 100))
		}
		if d := time.Since(begin); d < 4900*time.Millisecond || d > 5*time.Second {
			t.Fatalf("5,000 bytes at 1,000 a second took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, p.wait(ctx, 10_000))
		if p.wait(ctx, 1) == nil {
			t.Fatal("went on after the context's end")
		}
		if free := (&pacer{}); free.wait(t.Context(), 1<<40) != nil || free.wait(ctx, 1) == nil {
			t.Fatal("without a rate")
		}
	})
}
