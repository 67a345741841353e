// Command go is the driver for amqp091-go; package proto has the conversation.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"polylog/compat/amqp/clients/proto"
)

type driver struct {
	proto.Driver
	addr     string
	conn     *amqp.Connection
	channels map[string]*channel
}

type channel struct {
	*amqp.Channel
	confirming bool
	returns    chan amqp.Return
}

func main() {
	d := &driver{addr: os.Args[1], channels: map[string]*channel{}}
	d.Do = d.do
	if err := d.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (d *driver) do(r proto.Request) (proto.Outcome, error) {
	out, err := d.op(r)
	if a := (*amqp.Error)(nil); errors.As(err, &a) {
		err = &proto.Error{Code: a.Code, Text: a.Reason}
	}
	return out, err
}

func (d *driver) op(r proto.Request) (out proto.Outcome, err error) {
	switch r.Op {
	case "hello":
		d.conn, err = amqp.DialConfig("amqp://guest:guest@"+d.addr+"/", amqp.Config{Heartbeat: time.Second})
		return proto.Outcome{Client: "amqp091-go", Version: version()}, err
	case "channel":
		ch, err := d.conn.Channel()
		if err != nil {
			return out, err
		}
		c := &channel{Channel: ch, returns: ch.NotifyReturn(make(chan amqp.Return, 1000))}
		d.channels[r.Ch] = c
		cancelled := ch.NotifyCancel(make(chan string, 10))
		go func() {
			for tag := range cancelled {
				d.Say(proto.Reply{Event: "cancelled", Ch: r.Ch, Tag: tag})
			}
		}()
		return out, nil
	}
	ch := d.channels[r.Ch]
	if ch == nil {
		return out, fmt.Errorf("no channel %q", r.Ch)
	}
	switch r.Op {
	case "close":
		return out, ch.Close()
	case "confirm":
		ch.confirming = true
		return out, ch.Confirm(false)
	case "tx":
		return out, ch.Tx()
	case "commit":
		return out, ch.TxCommit()
	case "rollback":
		return out, ch.TxRollback()
	case "exchange":
		return out, ch.ExchangeDeclare(r.Name, r.Type, r.Durable, false, r.Internal, false, table(r.Args))
	case "queue":
		declare := ch.QueueDeclare
		if r.Passive {
			declare = ch.QueueDeclarePassive
		}
		q, err := declare(r.Name, r.Durable, r.AutoDelete, r.Exclusive, false, table(r.Args))
		return proto.Outcome{Name: q.Name, Messages: q.Messages, Consumers: q.Consumers}, err
	case "bind":
		return out, ch.QueueBind(r.Queue, r.Key, r.Exchange, false, table(r.Args))
	case "unbind":
		return out, ch.QueueUnbind(r.Queue, r.Key, r.Exchange, table(r.Args))
	case "xbind":
		return out, ch.ExchangeBind(r.Destination, r.Key, r.Source, false, nil)
	case "purge":
		out.Messages, err = ch.QueuePurge(r.Queue, false)
		return out, err
	case "delete":
		_, err := ch.QueueDelete(r.Queue, false, false, false)
		return out, err
	case "publish":
		return ch.publish(r)
	case "qos":
		return out, ch.Qos(r.Prefetch, 0, false)
	case "consume":
		in, err := ch.Consume(r.Queue, r.Tag, r.NoAck, r.Exclusive, false, false, table(r.Args))
		if err != nil {
			return out, err
		}
		go func() {
			for m := range in {
				d.Say(proto.Reply{Event: "deliver", Ch: r.Ch, Delivery: delivery(m)})
			}
		}()
		return out, nil
	case "get":
		m, ok, err := ch.Get(r.Queue, r.NoAck)
		if err != nil || !ok {
			return proto.Outcome{Empty: true}, err
		}
		return proto.Outcome{Delivery: delivery(m)}, nil
	case "ack":
		return out, ch.Ack(r.Number, r.Multiple)
	case "nack":
		return out, ch.Nack(r.Number, r.Multiple, r.Requeue)
	case "reject":
		return out, ch.Reject(r.Number, r.Requeue)
	case "cancel":
		return out, ch.Cancel(r.Tag, false)
	}
	return out, fmt.Errorf("no operation %q", r.Op)
}

func (ch *channel) publish(r proto.Request) (out proto.Outcome, err error) {
	m := r.Message
	if m == nil {
		m = &proto.Message{}
	}
	p := amqp.Publishing{
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Priority: uint8(m.Priority), CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo,
		Expiration: m.Expiration, MessageId: m.MessageID, Type: m.Type, UserId: m.UserID, AppId: m.AppID, Headers: table(m.Headers), Body: []byte(r.Body),
	}
	if m.Persistent {
		p.DeliveryMode = amqp.Persistent
	}
	if m.Timestamp != 0 {
		p.Timestamp = time.Unix(m.Timestamp, 0)
	}
	confirm, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), r.Exchange, r.Key, r.Mandatory, false, p)
	if err != nil || !ch.confirming {
		return out, err
	}
	select {
	case <-confirm.Done():
		out.Acked = confirm.Acked()
	case <-time.After(time.Minute):
		return out, errors.New("no confirm")
	}
	select {
	case back := <-ch.returns: // it comes before the confirm
		out.Returned = int(back.ReplyCode)
	default:
	}
	return out, nil
}

func delivery(m amqp.Delivery) *proto.Delivery {
	d := &proto.Delivery{
		Message: proto.Message{
			ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, Persistent: m.DeliveryMode == amqp.Persistent, Priority: int(m.Priority),
			CorrelationID: m.CorrelationId, ReplyTo: m.ReplyTo, Expiration: m.Expiration, MessageID: m.MessageId, Type: m.Type, UserID: m.UserId, AppID: m.AppId,
			Headers: plain(m.Headers),
		},
		Tag: m.ConsumerTag, Number: m.DeliveryTag, Redelivered: m.Redelivered, Exchange: m.Exchange, Key: m.RoutingKey, Body: string(m.Body),
	}
	if !m.Timestamp.IsZero() {
		d.Timestamp = m.Timestamp.Unix()
	}
	return d
}

// table is a table of JSON as the library wants it.
func table(m map[string]any) amqp.Table {
	if m == nil {
		return nil
	}
	t := amqp.Table{}
	for k, v := range m {
		t[k] = field(v)
	}
	return t
}

func field(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case []any:
		var list []any
		for _, x := range v {
			list = append(list, field(x))
		}
		return list
	case map[string]any:
		if s, ok := v["time"].(float64); ok {
			return time.Unix(int64(s), 0)
		}
		return table(v)
	}
	return v
}

// plain is a table of the library as JSON has it.
func plain(t amqp.Table) map[string]any {
	if t == nil {
		return nil
	}
	m := maps.Clone(map[string]any(t))
	for k, v := range m {
		m[k] = unfield(v)
	}
	return m
}

func unfield(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		return plain(v)
	case time.Time:
		return map[string]any{"time": v.Unix()}
	case []any:
		var list []any
		for _, x := range v {
			list = append(list, unfield(x))
		}
		return list
	}
	return v
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if strings.HasSuffix(m.Path, "amqp091-go") {
			return m.Version
		}
	}
	return ""
}
