package amqp

import (
	"context"

	"polylog/protocols/amqp/spec"
)

// The handlers of class tx.

func (ch *channel) txSelect(_ context.Context, m *spec.TxSelect) error { return notImplemented(m.ID()) }

func (ch *channel) txCommit(_ context.Context, m *spec.TxCommit) error { return notImplemented(m.ID()) }

func (ch *channel) txRollback(_ context.Context, m *spec.TxRollback) error {
	return notImplemented(m.ID())
}
