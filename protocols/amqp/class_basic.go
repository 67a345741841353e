package amqp

import (
	"context"

	"polylog/protocols/amqp/spec"
)

// The handlers of class basic.

func (ch *channel) basicQos(_ context.Context, m *spec.BasicQos) error { return notImplemented(m.ID()) }

func (ch *channel) basicConsume(_ context.Context, m *spec.BasicConsume) error {
	return notImplemented(m.ID())
}

func (ch *channel) basicCancel(_ context.Context, m *spec.BasicCancel) error {
	return notImplemented(m.ID())
}

func (ch *channel) basicGet(_ context.Context, m *spec.BasicGet) error { return notImplemented(m.ID()) }

func (ch *channel) basicAck(_ context.Context, m *spec.BasicAck) error { return notImplemented(m.ID()) }

func (ch *channel) basicReject(_ context.Context, m *spec.BasicReject) error {
	return notImplemented(m.ID())
}

func (ch *channel) basicNack(_ context.Context, m *spec.BasicNack) error {
	return notImplemented(m.ID())
}

func (ch *channel) basicRecover(_ context.Context, m *spec.BasicRecover) error {
	return notImplemented(m.ID())
}

func (ch *channel) basicRecoverAsync(_ context.Context, m *spec.BasicRecoverAsync) error {
	return notImplemented(m.ID())
}

// publish is basic.publish with its content. m, p and body are valid during the call only.
func (ch *channel) publish(_ context.Context, m *spec.BasicPublish, _ *spec.Properties, _ []byte) error {
	return notImplemented(m.ID())
}
