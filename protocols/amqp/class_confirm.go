package amqp

import (
	"context"

	"polylog/protocols/amqp/spec"
)

// The handlers of class confirm.

func (ch *channel) confirmSelect(_ context.Context, m *spec.ConfirmSelect) error {
	return notImplemented(m.ID())
}
