package webhook

import (
	"context"
	"time"

	"polylog/core"
	"polylog/protocols/http/subscription"
	"polylog/router"
)

// Pause has nothing more be sent to a subscription's endpoint until it is enabled. What is under way ends as it ends. Error
// kinds: Conflict (it is not pushed), and those of Router.SetSubscription.
func Pause(ctx context.Context, r *router.Router, p router.Principal, s *router.Subscription) error {
	return setPaused(ctx, r, p, s, true)
}

// Enable has an endpoint be sent to again, at once, that was paused or switched off, or that is left alone. Error kinds are
// those of Pause.
func Enable(ctx context.Context, r *router.Router, p router.Principal, s *router.Subscription, now time.Time) error {
	if err := setPaused(ctx, r, p, s, false); err != nil {
		return err
	}
	note := Note{EnabledAt: new(now.UTC())}
	return note.Remember(ctx, r, s)
}

func setPaused(ctx context.Context, r *router.Router, p router.Principal, s *router.Subscription, paused bool) error {
	s, err := subscription.Latest(ctx, r, s.Name)
	if err != nil {
		return err
	}
	o, err := subscription.OptionsOf(s)
	switch {
	case err != nil:
		return err
	case o.Push == nil:
		return core.E(core.Conflict, "subscription %s is not pushed", s.Name)
	case o.Push.Paused == paused:
		return nil
	}
	x, err := subscription.SecretsOf(s)
	if err != nil {
		return err
	}
	o.Push.Paused = paused
	return subscription.Save(ctx, r, p, s, &o, &x)
}
