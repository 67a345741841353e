package nsq

import (
	"strings"

	"polylog/core"
	"polylog/protocols/http/subscription"
	"polylog/protocols/http/webhook"
	"polylog/router"
)

// A channel is a subscription on its topic, named topic:channel. Neither part can have a colon.

const (
	// ackDeadline is how long a consumer of a channel may take for a message, in ms: nsqd's msg-timeout.
	ackDeadline = 60_000
	// channelsPage is how many are looked at in one piece.
	channelsPage = 100
)

// channelName is the name of a channel's subscription.
func channelName(topic core.Name, channel string) core.Name {
	return core.Name{Namespace: topic.Namespace, Name: topic.Name + ":" + channel}
}

// channels are a topic's, as the leader has them.
func (c *call) channels(t *router.Topic) (all []*router.Subscription, err error) {
	if err := c.router.Sync(c.ctx); err != nil {
		return nil, err
	}
	return c.knownChannels(t)
}

// knownChannels are a topic's, as this node has them, by name.
func (c *call) knownChannels(t *router.Topic) (all []*router.Subscription, err error) {
	prefix := t.Name.Name + ":"
	for after := prefix; ; {
		some, err := c.router.Subscriptions(t.Name.Namespace, after, channelsPage)
		if err != nil {
			return nil, err
		}
		for _, s := range some {
			channel, ok := strings.CutPrefix(s.Name.Name, prefix)
			if !ok {
				return all, nil
			}
			if isName(channel) && s.Topic == t.ID {
				all = append(all, s)
			}
			after = s.Name.Name
		}
		if len(some) < channelsPage {
			return all, nil
		}
	}
}

// createChannel makes a channel, where it is not there. A topic's first channel gets what the topic has,
// the others what comes after them.
func createChannel(c *call) error {
	args, err := c.args()
	if err != nil {
		return err
	}
	topic, channel, err := channelArgs(args)
	if err != nil {
		return err
	}
	t, err := c.topic(topic, router.OpRead)
	if err != nil {
		return err
	}
	channels, err := c.channels(t)
	if err != nil {
		return err
	}
	spec := router.SubscriptionSpec{Name: channelName(topic, channel), Topic: t, From: router.FromEnd}
	if len(channels) == 0 {
		spec.From = router.FromStart
	}
	for _, s := range channels {
		if s.Name == spec.Name {
			return nil
		}
	}
	if err := c.dropOrphan(spec.Name); err != nil {
		return err
	}
	if spec.Config.Attributes, err = subscription.Attributes(&subscription.Options{AckDeadlineMs: ackDeadline}, nil, c.router.OwnerOf(c.principal)); err != nil {
		return err
	}
	_, _, err = c.router.SetSubscription(c.ctx, c.principal, spec)
	return err
}

// dropOrphan deletes a channel that its topic has left behind: one that was not deleted here.
func (c *call) dropOrphan(n core.Name) error {
	s, err := c.router.KnownSubscription(n)
	if err != nil || s == nil || s.Topic.IsZero() {
		return err
	}
	if _, ok := c.router.TopicByID(s.Topic); ok {
		return nil
	}
	return webhook.Delete(c.ctx, c.router, c.principal, n)
}

// channel finds the channel that the call names, if its caller may do op with it.
func (c *call) channel(op router.Operation) (*router.Subscription, error) {
	args, err := c.args()
	if err != nil {
		return nil, err
	}
	topic, channel, err := channelArgs(args)
	if err != nil {
		return nil, err
	}
	t, err := c.topic(topic, router.OpRead)
	if err != nil {
		return nil, err
	}
	n := channelName(topic, channel)
	if err := c.may(op, router.ResourceGroup, n); err != nil {
		return nil, err
	}
	s, err := c.router.Subscription(c.ctx, n)
	if core.KindOf(err) == core.NotFound || err == nil && s.Topic != t.ID {
		return nil, errChannelNotFound
	}
	return s, err
}

func deleteChannel(c *call) error {
	s, err := c.channel(router.OpDelete)
	if err != nil {
		return err
	}
	return goneIs(errChannelNotFound, webhook.Delete(c.ctx, c.router, c.principal, s.Name))
}

// emptyChannel moves a channel behind all that its topic has: what is with consumers goes, too.
func emptyChannel(c *call) error {
	s, err := c.channel(router.OpRead)
	if err != nil {
		return err
	}
	return goneIs(errChannelNotFound, c.router.SeekSubscription(c.ctx, c.principal, s.Name, router.FromEnd, nil))
}

// pauseChannel has nothing more be sent of a channel that is pushed. Of others consumers take what they want.
func pauseChannel(c *call) error {
	s, err := c.channel(router.OpAlter)
	if err != nil {
		return err
	}
	return onlyPushed(webhook.Pause(c.ctx, c.router, c.principal, s))
}

func unpauseChannel(c *call) error {
	s, err := c.channel(router.OpAlter)
	if err != nil {
		return err
	}
	return onlyPushed(webhook.Enable(c.ctx, c.router, c.principal, s, c.opts.Clock()))
}

func onlyPushed(err error) error {
	if core.KindOf(err) == core.Conflict {
		return core.E(core.Unsupported, "only channels that are pushed can be paused")
	}
	return goneIs(errChannelNotFound, err)
}

// goneIs is err, or r where something is not there any more.
func goneIs(r refusal, err error) error {
	if core.KindOf(err) == core.NotFound {
		return r
	}
	return err
}
