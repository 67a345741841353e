package harness

import (
	"context"
	"fmt"
	"time"
)

// Pause waits; false tells that ctx ended.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Await asks again and again whether something is done, for so long at most. The error tells that it
// is not.
func Await(ctx context.Context, within time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %v", within))
	defer cancel()
	for !done() {
		if !Pause(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}
