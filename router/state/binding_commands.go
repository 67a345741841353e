package state

import (
	"polylog/core"
	"polylog/core/message"
	"polylog/core/wire"
)

// Bind creates a binding unless it is there.
type Bind struct{ Binding }

// Command encodes: source, to-exchange byte, destination, key, arguments.
func (c *Bind) Command() core.Command {
	return core.Command{Code: CodeBind, Head: c.appendTo(nil)}
}

func decodeBind(body []byte) (c Bind, err error) {
	r := wire.NewReader(body)
	c.Binding = readBinding(&r)
	return c, r.Close()
}

// What a binding may have, in bytes.
const (
	maxBindingKey       = 4096
	maxBindingArguments = 64 << 10
)

func (b *Binding) check() *core.Error {
	switch {
	case b.Source.Namespace != b.Destination.Namespace:
		return core.E(core.Invalid, "a binding from namespace %q to %q", b.Source.Namespace, b.Destination.Namespace)
	case b.Source.Name == "" || b.ToExchange && b.Destination.Name == "":
		return onDefault()
	case len(b.Key) > maxBindingKey:
		return core.E(core.TooLarge, "a binding key of %d bytes, at most %d are allowed", len(b.Key), maxBindingKey)
	}
	if n := len(message.AppendTable(nil, b.Arguments)); n > maxBindingArguments {
		return core.E(core.TooLarge, "arguments of %d bytes, at most %d are allowed", n, maxBindingArguments)
	}
	return nil
}

func (s *State) bind(tx txn, body []byte) core.Result {
	cmd, err := decodeBind(body)
	if err != nil {
		return invalid("bind", err)
	}
	b := &cmd.Binding
	if err := b.check(); err != nil {
		return core.Result{Err: err}
	}
	v := s.routing.vhosts[b.Source.Namespace]
	if v == nil {
		return core.Result{Err: noNamespace(b.Source.Namespace)}
	}
	source := s.exchangeToBind(v, b.Source)
	if source == nil {
		return core.Result{Err: noExchange(b.Source)}
	}
	to, destination, err := s.destinationOf(tx, v, b)
	switch {
	case err != nil:
		return s.storeResult(err)
	case to.kind == 0:
		return core.Result{Err: noDestination(b.Destination, b.ToExchange)}
	}
	if destination != nil && destination.Name == source.Name {
		destination = source // a topic's, which may not be stored yet: it gets one id
	}
	if t, _ := source.routesAs(); t.check != nil {
		if err := t.check(b); err != nil {
			return core.Result{Err: err}
		}
	}
	if source.Type == TypeDelayed && to.kind == toTopic {
		return refused(core.Invalid, "exchange %s holds messages back, and a topic takes none that is older than its last one", b.Source)
	}
	if source.ID != 0 && (destination == nil || destination.ID != 0) {
		id := newBindingID(source.ID, to, b)
		if _, there, err := tx.Get(id.sourceKey()); err != nil {
			return s.storeResult(err)
		} else if there {
			return core.Result{}
		}
	}
	if err := s.routing.roomFor(source, b); err != nil {
		return core.Result{Err: err}
	}
	for _, x := range [...]*exchange{source, destination} {
		if x != nil && x.ID == 0 {
			if err := s.storeExchange(tx, v, x); err != nil {
				return s.storeResult(err)
			}
		}
	}
	if destination != nil {
		to.id = destination.ID
	}
	id := newBindingID(source.ID, to, b)
	tx.Set(id.sourceKey(), b.encode())
	tx.Set(id.destinationKey(), nil)
	s.routing.bind(id, b)
	return core.Result{}
}

// exchangeToBind is the exchange of a name, which may be one that is not stored yet; nil when
// there is none.
func (s *State) exchangeToBind(v *vhost, n core.Name) *exchange {
	if x := v.exchanges[n.Name]; x != nil {
		return x
	}
	if t := s.findTopic(v, []byte(n.Name)); t != nil {
		return newExchange(ofTopic(t))
	}
	return nil
}

// destinationOf is what a binding leads to; the kind is 0 where there is no such thing.
func (s *State) destinationOf(tx txn, v *vhost, b *Binding) (d destinationID, x *exchange, err error) {
	if b.ToExchange {
		if x = s.exchangeToBind(v, b.Destination); x != nil {
			d = destinationID{toExchange, x.ID}
		}
		return d, x, nil
	}
	q, err := s.findQueue(tx, v, []byte(b.Destination.Name))
	switch {
	case err != nil:
		return d, nil, err
	case q != 0:
		return destinationID{toQueue, uint64(q)}, nil, nil
	}
	if t := s.findTopic(v, []byte(b.Destination.Name)); t != nil {
		d = destinationID{toTopic, uint64(t.Queues[0])}
	}
	return d, nil, nil
}

// Unbind removes a binding, if it is there.
type Unbind struct{ Binding }

// Command encodes: source, to-exchange byte, destination, key, arguments.
func (c *Unbind) Command() core.Command {
	return core.Command{Code: CodeUnbind, Head: c.appendTo(nil)}
}

func decodeUnbind(body []byte) (c Unbind, err error) {
	r := wire.NewReader(body)
	c.Binding = readBinding(&r)
	return c, r.Close()
}

func (s *State) unbind(tx txn, body []byte) core.Result {
	cmd, err := decodeUnbind(body)
	if err != nil {
		return invalid("unbind", err)
	}
	b := &cmd.Binding
	if err := b.check(); err != nil {
		return core.Result{Err: err}
	}
	v := s.routing.vhosts[b.Source.Namespace]
	if v == nil {
		return core.Result{Err: noNamespace(b.Source.Namespace)}
	}
	source := v.exchanges[b.Source.Name]
	to, _, err := s.destinationOf(tx, v, b)
	if err != nil {
		return s.storeResult(err)
	}
	if source == nil || source.ID == 0 || to.id == 0 {
		return core.Result{} // nothing has bindings yet, or is not there
	}
	id := newBindingID(source.ID, to, b)
	if _, there, err := tx.Get(id.sourceKey()); err != nil {
		return s.storeResult(err)
	} else if !there {
		return core.Result{}
	}
	s.dropBinding(tx, id, b)
	if _, err := s.sweepBindings(tx, bindingsAtOnce); err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}
