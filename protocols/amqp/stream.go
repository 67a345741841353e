package amqp

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// A stream (https://www.rabbitmq.com/docs/streams) is a topic: queue.declare with the type
// stream creates one of one partition, and every topic, whoever made it, can be consumed from
// as a stream by its name. Where a queue has the name too, the name means the queue.

// streamInstead is the topic that a name stands for after err, which is why there is no queue
// of that name; nil where there is none either.
func (c *conn) streamInstead(err error, name string) *router.Topic {
	if err == nil || asProtocolError(err).code != spec.NotFound {
		return nil
	}
	t, _ := c.srv.router.Topic(c.inNamespace(name))
	return t
}

// streamType is what x-queue-type is for every stream.
var streamType = message.String("stream")

// declareStream is queue.declare of the type stream, whose arguments were checked. A stream that
// is there already stays as it is.
func (ch *channel) declareStream(ctx context.Context, name string, m *spec.QueueDeclare) error {
	t, err := ch.conn.makeStream(ctx, name, m)
	if err != nil {
		return err
	}
	return ch.declaredStream(ctx, t, m.NoWait)
}

func (c *conn) makeStream(ctx context.Context, name string, m *spec.QueueDeclare) (*router.Topic, error) {
	if t, ok := c.srv.router.Topic(c.inNamespace(name)); ok {
		return t, nil
	}
	t, err := c.srv.router.CreateTopic(ctx, c.principal, router.TopicSpec{
		Name: c.inNamespace(name), Partitions: 1, Configs: streamConfigs(m.Arguments, c.srv.opts.MaxMessageBytes),
	})
	switch core.KindOf(err) { //nolint:exhaustive // the others are as they are
	case core.Exists:
		if err := c.srv.router.Sync(ctx); err != nil {
			return nil, err
		}
		if t, ok := c.srv.router.Topic(c.inNamespace(name)); ok {
			return t, nil
		}
	case core.Invalid:
		return nil, soft(spec.PreconditionFailed, "invalid name of %s: %v", c.queueText(name), err)
	}
	return t, c.refused(err, "configure", c.queueText(name))
}

// argMaxAge is the one argument of streams alone that means something here.
const argMaxAge = "x-max-age"

// streamConfigs are a topic's configuration for a stream's arguments. Without any it keeps
// everything, as RabbitMQ's streams do.
func streamConfigs(args message.Table, maxMessage int) map[string]string {
	configs := map[string]string{
		"retention.ms": "-1", "retention.bytes": "-1",
		"max.message.bytes": strconv.Itoa(maxMessage + recordRoom),
	}
	if v := argument(args, argMaxAge); v != nil {
		if ms, ok := parseAge(v.Str()); ok {
			configs["retention.ms"] = strconv.FormatInt(ms, 10)
		}
	}
	if v := argument(args, argMaxBytes); v != nil {
		configs["retention.bytes"] = strconv.FormatInt(intOf(*v), 10)
	}
	return configs
}

// recordRoom is what a record may have beside its value.
const recordRoom = 1 << 20

// ageUnits are those of x-max-age and of intervals, in ms.
var ageUnits = map[byte]int64{
	's': 1000, 'm': 60_000, 'h': 3_600_000, 'D': 86_400_000, 'M': 30 * 86_400_000, 'Y': 365 * 86_400_000,
}

// parseAge is a time span as 7D, in ms.
func parseAge(s string) (ms int64, ok bool) {
	if len(s) < 2 {
		return 0, false
	}
	n, err := strconv.ParseInt(s[:len(s)-1], 10, 32)
	unit := ageUnits[s[len(s)-1]]
	return n * unit, err == nil && n >= 0 && unit > 0
}

// declaredStream answers a declaration.
func (ch *channel) declaredStream(ctx context.Context, t *router.Topic, noWait bool) error {
	ch.lastQueue = t.Name.Name
	if noWait {
		return nil
	}
	if err := ch.conn.flight.drained(ctx); err != nil {
		return err
	}
	var n int64
	for _, q := range t.Partitions {
		h, err := ch.conn.srv.router.Head(q)
		if err != nil {
			return err
		}
		n += int64(h.End - h.Start)
	}
	ch.send(&spec.QueueDeclareOk{Queue: t.Name.Name, MessageCount: number(n)})
	return nil
}

// deleteStream is queue.delete.
func (ch *channel) deleteStream(ctx context.Context, t *router.Topic, m *spec.QueueDelete) error {
	c := ch.conn
	if m.IfUnused || m.IfEmpty {
		return c.noConditions(t.Name.Name, m, "stream")
	}
	err := c.srv.router.DeleteTopic(ctx, c.principal, t.Name)
	if err != nil && core.KindOf(err) != core.NotFound {
		return c.refused(err, "configure", c.queueText(t.Name.Name))
	}
	return nil
}

// notByStreams is the error for what streams cannot do.
func (c *conn) notByStreams(what string, t *router.Topic) error {
	return hard(spec.NotImplemented, "%s not supported by stream queues %s", what, c.queueText(t.Name.Name))
}

// streamFilter chooses the messages of a stream by a header.
type streamFilter struct {
	values     map[string]struct{} // nil: all messages
	unfiltered bool                // those without the header, too
}

// Arguments and the header of filters.
const (
	argStreamOffset   = "x-stream-offset"
	argStreamFilter   = "x-stream-filter"
	argUnfiltered     = "x-stream-match-unfiltered"
	headerFilterValue = "x-stream-filter-value"
)

func (c *conn) streamFilter(args message.Table, t *router.Topic) (f streamFilter, err error) {
	invalid := func(name string, v *message.Value) error {
		return invalidArgument(name, c.queueText(t.Name.Name), "a value of type "+typeName(v.Kind()))
	}
	if v := argument(args, argUnfiltered); v != nil {
		if v.Kind() != message.KindBool {
			return f, invalid(argUnfiltered, v)
		}
		f.unfiltered = v.Bool()
	}
	v := argument(args, argStreamFilter)
	if v == nil {
		return f, nil
	}
	values := []message.Value{*v}
	if v.Kind() == message.KindArray {
		values = values[:0]
		for i := range v.Len() {
			values = append(values, v.At(i))
		}
	}
	f.values = map[string]struct{}{}
	for i := range values {
		if values[i].Kind() != message.KindString {
			return f, invalid(argStreamFilter, &values[i])
		}
		f.values[values[i].Str()] = struct{}{}
	}
	return f, nil
}

// matches reports whether a message is wanted.
func (f *streamFilter) matches(r *core.Record) bool {
	if f.values == nil {
		return true
	}
	v, ok := message.HeaderOf(r, headerFilterValue)
	if !ok {
		return f.unfiltered
	}
	_, wanted := f.values[v.Str()]
	return wanted
}

// streamParts are where a consumer begins in each partition.
func (ch *channel) streamParts(ctx context.Context, args message.Table, t *router.Topic) ([]streamPart, error) {
	r := ch.conn.srv.router
	v := argument(args, argStreamOffset)
	parts := make([]streamPart, len(t.Partitions))
	for i, q := range t.Partitions {
		h, err := r.Head(q)
		if err != nil {
			return nil, err
		}
		from, ms, ok := streamOffset(v, h, ch.conn.srv.now())
		if !ok {
			return nil, invalidArgument(argStreamOffset, ch.conn.queueText(t.Name.Name), octets(v.Bytes()))
		}
		if ms >= 0 {
			off, _, found, err := r.OffsetByTime(ctx, q, ms)
			switch {
			case err != nil:
				return nil, err
			case found:
				from = off
			}
		}
		parts[i] = streamPart{queue: q, number: int32(i), next: min(max(from, h.Start), h.End), from: from}
	}
	return parts, nil
}

// streamOffset is where x-stream-offset points to in a partition; ms >= 0 asks for the first
// message of that time or later, and from where there is none. now is in ms.
func streamOffset(v *message.Value, h router.Head, now int64) (from core.Offset, ms int64, ok bool) {
	if v == nil {
		return h.End, -1, true
	}
	if v.Kind() == message.KindTime {
		s, _ := v.Int()
		return h.End, max(s, 0) * 1000, true
	}
	if n, is := v.Int(); is {
		return core.Offset(n), -1, n >= 0
	}
	if v.Kind() != message.KindString {
		return 0, -1, false
	}
	switch v.Str() {
	case "first":
		return h.Start, -1, true
	case "last":
		return h.End - 1, -1, true
	case "next":
		return h.End, -1, true
	}
	age, ok := parseAge(v.Str())
	return h.End, max(now-age, 0), ok
}

// consumeStream is basic.consume of a stream.
func (ch *channel) consumeStream(ctx context.Context, m *spec.BasicConsume, t *router.Topic) error {
	c := ch.conn
	switch {
	case m.NoAck:
		return c.notByStreams("automatic acknowledgement", t)
	case ch.prefetch == 0:
		return soft(spec.PreconditionFailed, "consumer prefetch count is not set for '%s'", c.queueText(t.Name.Name))
	case m.Exclusive:
		return c.notByStreams("exclusive consumers", t)
	}
	if err := c.srv.router.Authorize(c.principal, router.OpRead, router.Resource{Kind: router.ResourceTopic, Name: t.Name}); err != nil {
		return c.refused(err, "read", c.queueText(t.Name.Name))
	}
	filter, err := c.streamFilter(m.Arguments, t)
	if err != nil {
		return err
	}
	if err := c.flight.drained(ctx); err != nil { // next is what follows in the client's order
		return err
	}
	parts, err := ch.streamParts(ctx, m.Arguments, t)
	if err != nil {
		return err
	}
	tag := cmp.Or(m.ConsumerTag, serverNamed("amq.ctag-"))
	k := &streamConsumer{ch: ch, tag: tag, topic: t, credit: ch.prefetch, filter: filter, parts: parts, prefetch: ch.prefetch, arguments: m.Arguments}
	k.unwatch = c.srv.router.Watch(slices.Clone(t.Partitions), func() { c.ready(k) })
	ch.mu.Lock()
	alive := ch.addHolderLocked(k)
	if alive {
		if ch.streams == nil {
			ch.streams = map[string]*streamConsumer{}
		}
		ch.streams[tag] = k
	}
	ch.mu.Unlock()
	if !alive {
		k.close()
		return nil
	}
	ch.reply(m.NoWait, &spec.BasicConsumeOk{ConsumerTag: tag})
	ch.mu.Lock()
	k.started = true
	ch.mu.Unlock()
	c.ready(k)
	return nil
}

// cancelStream ends the consumer of a stream, if it has the tag.
func (ch *channel) cancelStream(tag string) {
	ch.mu.Lock()
	k := ch.streams[tag]
	if k != nil {
		delete(ch.streams, tag)
		k.ended, k.done = true, true
	}
	ch.mu.Unlock()
	if k != nil {
		k.unwatch()
		ch.closeIdle(k)
	}
}
