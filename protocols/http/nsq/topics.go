package nsq

import (
	"errors"

	"polylog/core"
	"polylog/protocols/http/publish"
	"polylog/protocols/http/webhook"
	"polylog/router"
)

// createTopic makes a topic, where it is not there.
func createTopic(c *call) error {
	name, err := c.named()
	if err != nil {
		return err
	}
	_, err = c.router.CreateTopic(c.ctx, c.principal, router.TopicSpec{Name: name, Partitions: -1})
	switch core.KindOf(err) { //nolint:exhaustive // the others are as they are
	case core.Exists:
		return nil
	case core.Invalid:
		return errTopicName.because(err.Error())
	}
	return err
}

// named is the topic that the call names.
func (c *call) named() (core.Name, error) {
	args, err := c.args()
	if err != nil {
		return core.Name{}, err
	}
	return topicArg(args)
}

// topic finds the topic of the call, if its caller may do op with it.
func (c *call) topic(name core.Name, op router.Operation) (*router.Topic, error) {
	if err := c.may(op, router.ResourceTopic, name); err != nil {
		return nil, err
	}
	return publish.Find(c.ctx, c.router, name)
}

// deleteTopic deletes a topic and its channels.
func deleteTopic(c *call) error {
	args, err := c.args()
	if err != nil {
		return err
	}
	name, err := topicArg(args)
	switch {
	case errors.Is(err, errNoTopicSaid):
		return err
	case err != nil:
		return errTopicNotFound // which is what nsqd says
	}
	t, err := c.topic(name, router.OpDelete)
	if err != nil {
		return err
	}
	channels, err := c.channels(t)
	if err != nil {
		return err
	}
	for _, s := range channels {
		if err := c.may(router.OpDelete, router.ResourceGroup, s.Name); err != nil {
			return err
		}
	}
	for _, s := range channels {
		if err := webhook.Delete(c.ctx, c.router, c.principal, s.Name); err != nil && core.KindOf(err) != core.NotFound {
			return err
		}
	}
	return c.router.DeleteTopic(c.ctx, c.principal, name)
}

// pauseTopic would keep a topic's messages from its channels, which have them as soon as they are stored.
func pauseTopic(c *call) error {
	name, err := c.named()
	if err != nil {
		return err
	}
	if _, err := c.topic(name, router.OpAlter); err != nil {
		return err
	}
	return core.E(core.Unsupported, "topics cannot be paused")
}

// emptyTopic deletes what waits in a topic for its first channel: all that is in it. What a topic with
// channels gets is theirs at once.
func emptyTopic(c *call) error {
	name, err := c.named()
	if err != nil {
		return err
	}
	t, err := c.topic(name, router.OpDelete)
	if err != nil {
		return err
	}
	if channels, err := c.channels(t); err != nil || len(channels) > 0 {
		return err
	}
	var trims []router.TrimRequest
	for _, q := range t.Partitions {
		trims = append(trims, router.TrimRequest{Queue: q, Before: -1})
	}
	results, err := c.router.Trim(c.ctx, c.principal, trims)
	for i := range results {
		if err == nil {
			err = results[i].Err
		}
	}
	return err
}
