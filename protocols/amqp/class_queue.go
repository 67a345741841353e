package amqp

import (
	"context"

	"polylog/protocols/amqp/spec"
)

// The handlers of class queue.

func (ch *channel) queueDeclare(_ context.Context, m *spec.QueueDeclare) error {
	return notImplemented(m.ID())
}

func (ch *channel) queueBind(_ context.Context, m *spec.QueueBind) error {
	return notImplemented(m.ID())
}

func (ch *channel) queueUnbind(_ context.Context, m *spec.QueueUnbind) error {
	return notImplemented(m.ID())
}

func (ch *channel) queuePurge(_ context.Context, m *spec.QueuePurge) error {
	return notImplemented(m.ID())
}

func (ch *channel) queueDelete(_ context.Context, m *spec.QueueDelete) error {
	return notImplemented(m.ID())
}
