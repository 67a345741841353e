package webhook

import (
	"math/rand/v2"
	"time"

	"polylog/protocols/http/subscription"
)

// schedule is when a message is tried again that failed so often: Standard Webhooks 1.0,
// "Retry schedule".
var schedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// throttled is how long an endpoint is left alone that says it gets too much, and not for how
// long.
const throttled = time.Minute

// rest is how long a message rests that has failed so often before, with a fifth more or less,
// so that not all come at once.
func rest(retry *subscription.Retry, attempts int) time.Duration {
	d := retry.After(attempts)
	if retry == nil {
		d = schedule[min(attempts, len(schedule)-1)]
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // it is no secret
}
