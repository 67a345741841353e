package amqp

import (
	"context"

	"polylog/protocols/amqp/spec"
)

// method runs the handler of a method on an open channel. Handlers run on the reader's
// goroutine; see spec.Decoder for how long a method is valid.
func (ch *channel) method(ctx context.Context, m spec.Method) error {
	if !pipelined(m) {
		if err := ch.catchUp(ctx); err != nil || !ch.isOpen() {
			return err
		}
	}
	switch m := m.(type) {
	case *spec.ChannelClose:
		return ch.closedByClient(ctx)
	case *spec.ChannelCloseOk:
		// of nothing
	case *spec.ChannelFlow:
		return ch.flow(m)
	case *spec.ChannelFlowOk:
	case *spec.AccessRequest: // of AMQP 0-8: every ticket is good
		ch.send(&spec.AccessRequestOk{Ticket: 1})

	case *spec.ExchangeDeclare:
		return ch.exchangeDeclare(ctx, m)
	case *spec.ExchangeDelete:
		return ch.exchangeDelete(ctx, m)
	case *spec.ExchangeBind:
		return ch.exchangeBind(ctx, m)
	case *spec.ExchangeUnbind:
		return ch.exchangeUnbind(ctx, m)

	case *spec.QueueDeclare:
		return ch.queueDeclare(ctx, m)
	case *spec.QueueBind:
		return ch.queueBind(ctx, m)
	case *spec.QueueUnbind:
		return ch.queueUnbind(ctx, m)
	case *spec.QueuePurge:
		return ch.queuePurge(ctx, m)
	case *spec.QueueDelete:
		return ch.queueDelete(ctx, m)

	case *spec.BasicQos:
		return ch.basicQos(ctx, m)
	case *spec.BasicConsume:
		return ch.basicConsume(ctx, m)
	case *spec.BasicCancel:
		return ch.basicCancel(ctx, m)
	case *spec.BasicCancelOk: // of our basic.cancel
	case *spec.BasicPublish:
		ch.content.begin(m)
	case *spec.BasicGet:
		return ch.basicGet(ctx, m)
	case *spec.BasicAck:
		return ch.basicAck(ctx, m)
	case *spec.BasicReject:
		return ch.basicReject(ctx, m)
	case *spec.BasicNack:
		return ch.basicNack(ctx, m)
	case *spec.BasicRecover:
		return ch.basicRecover(ctx, m)
	case *spec.BasicRecoverAsync:
		return ch.basicRecoverAsync(ctx, m)

	case *spec.ConfirmSelect:
		return ch.confirmSelect(ctx, m)
	case *spec.TxSelect:
		return ch.txSelect(ctx, m)
	case *spec.TxCommit:
		return ch.txCommit(ctx, m)
	case *spec.TxRollback:
		return ch.txRollback(ctx, m)
	default: // what only servers send, or only channel 0 knows
		return hard(spec.CommandInvalid, "unimplemented method")
	}
	return nil
}

// pipelined reports whether a method takes effect without an answer, so that nothing has to
// wait for what came before it.
func pipelined(m spec.Method) bool {
	switch m.(type) {
	case *spec.BasicPublish, *spec.BasicAck, *spec.BasicNack, *spec.BasicReject, *spec.BasicCancelOk, *spec.ChannelFlowOk:
		return true
	}
	return false
}

// catchUp waits for what became of the publishes before a method, and gives the dispatcher
// the acknowledgements: the answer has to say what is so after them. An error of theirs
// closes the channel first.
func (ch *channel) catchUp(ctx context.Context) error {
	if err := ch.conn.flight.drained(ctx); err != nil {
		return err
	}
	ch.settling.flush()
	return nil
}

// flow is channel.flow. Clients that do not want deliveries have prefetch for that.
func (ch *channel) flow(m *spec.ChannelFlow) error {
	if !m.Active {
		return hard(spec.NotImplemented, "active=false")
	}
	ch.send(&spec.ChannelFlowOk{Active: true})
	return nil
}
