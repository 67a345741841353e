package amqp

import (
	"context"

	"polylog/protocols/amqp/spec"
)

// The handlers of class exchange.

func (ch *channel) exchangeDeclare(_ context.Context, m *spec.ExchangeDeclare) error {
	return notImplemented(m.ID())
}

func (ch *channel) exchangeDelete(_ context.Context, m *spec.ExchangeDelete) error {
	return notImplemented(m.ID())
}

func (ch *channel) exchangeBind(_ context.Context, m *spec.ExchangeBind) error {
	return notImplemented(m.ID())
}

func (ch *channel) exchangeUnbind(_ context.Context, m *spec.ExchangeUnbind) error {
	return notImplemented(m.ID())
}
