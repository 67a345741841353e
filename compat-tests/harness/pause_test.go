package harness

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		if err := Await(t.Context(), time.Minute, func() bool { asked++; return asked == 100 }); err != nil || asked != 100 {
			t.Errorf("asked %d times: %v", asked, err)
		}
		if err := Await(t.Context(), time.Minute, func() bool { return false }); err == nil || err.Error() != "not within 1m0s" {
			t.Errorf("never done: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Await(ctx, time.Minute, func() bool { return false }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}
