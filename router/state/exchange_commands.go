package state

import (
	"strings"

	"polylog/core"
	"polylog/core/wire"
)

// DeclareExchange creates an exchange unless one of that name exists, which is then left as it
// is: whoever declares compares.
type DeclareExchange struct {
	Name   core.Name
	Config ExchangeConfig
}

// Command encodes: name, type, flags byte, arguments.
func (c *DeclareExchange) Command() core.Command {
	return core.Command{Code: CodeDeclareExchange, Head: c.Config.appendTo(appendName(nil, c.Name))}
}

func decodeDeclareExchange(body []byte) (c DeclareExchange, err error) {
	r := wire.NewReader(body)
	c = DeclareExchange{readName(&r), readExchangeConfig(&r)}
	return c, r.Close()
}

// DecodeDeclaredExchange reads the body of the result of DeclareExchange: the exchange of that
// name, and whether it is a new one. Created byte, the exchange's value.
func DecodeDeclaredExchange(n core.Name, body []byte) (x *Exchange, created bool, err error) {
	if len(body) == 0 {
		return nil, false, wire.ErrShort
	}
	x, err = decodeExchange(n, body[1:])
	return x, body[0] != 0, err
}

// maxExchangeName bounds a name, in bytes.
const maxExchangeName = 255

func (s *State) declareExchange(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeDeclareExchange(body)
	switch {
	case err != nil:
		return invalid("declare exchange", err)
	case len(cmd.Name.Name) > maxExchangeName:
		return refused(core.Invalid, "declare exchange: a name of %d bytes, want at most %d", len(cmd.Name.Name), maxExchangeName)
	case cmd.Name.Name == "":
		return core.Result{Err: onDefault()}
	}
	v := s.routing.vhosts[cmd.Name.Namespace]
	if v == nil {
		return core.Result{Err: noNamespace(cmd.Name.Namespace)}
	}
	declared := func(x *Exchange, created byte) core.Result {
		return core.Result{Body: append([]byte{created}, x.encode()...)}
	}
	if x := v.exchanges[cmd.Name.Name]; x != nil {
		return declared(&x.Exchange, 0)
	}
	if t := s.findTopic(v, []byte(cmd.Name.Name)); t != nil {
		x := ofTopic(t)
		return declared(&x, 0)
	}
	if strings.HasPrefix(cmd.Name.Name, reservedPrefix) {
		return refused(core.Denied, "exchange name '%s' contains reserved prefix 'amq.*'", cmd.Name.Name)
	}
	if err := cmd.Config.check(); err != nil {
		return core.Result{Err: err}
	}
	x := newExchange(Exchange{Name: cmd.Name, Created: c.time, ExchangeConfig: cmd.Config})
	if err := s.storeExchange(tx, v, x); err != nil {
		return s.storeResult(err)
	}
	return declared(&x.Exchange, 1)
}

// reservedPrefix is that of the names of predeclared exchanges.
const reservedPrefix = "amq."

func onDefault() *core.Error {
	return core.E(core.Denied, "operation not permitted on the default exchange")
}

// storeExchange gives an exchange that is not stored yet its id.
func (s *State) storeExchange(tx txn, v *vhost, x *exchange) error {
	id, err := s.take(tx, counterExchanges, 1)
	if err != nil {
		return err
	}
	x.ID = id
	tx.Set(exchangeKey(x.Name), x.encode())
	s.routing.stored(v, x)
	return nil
}

// DeleteExchange deletes an exchange with its bindings.
type DeleteExchange struct {
	Name     core.Name
	IfUnused bool // Conflict when it has bindings
}

// Command encodes: name, if-unused byte.
func (c *DeleteExchange) Command() core.Command {
	return core.Command{Code: CodeDeleteExchange, Head: wire.AppendBool(appendName(nil, c.Name), c.IfUnused)}
}

func decodeDeleteExchange(body []byte) (c DeleteExchange, err error) {
	r := wire.NewReader(body)
	c = DeleteExchange{readName(&r), r.Bool()}
	return c, r.Close()
}

func (s *State) deleteExchange(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteExchange(body)
	switch {
	case err != nil:
		return invalid("delete exchange", err)
	case cmd.Name.Name == "":
		return core.Result{Err: onDefault()}
	case strings.HasPrefix(cmd.Name.Name, reservedPrefix):
		return refused(core.Denied, "deletion of system exchange '%s' not allowed", cmd.Name.Name)
	}
	v := s.routing.vhosts[cmd.Name.Namespace]
	if v == nil {
		return core.Result{Err: noNamespace(cmd.Name.Namespace)}
	}
	x := v.exchanges[cmd.Name.Name]
	switch {
	case x != nil && x.Topic != 0, x == nil && s.findTopic(v, []byte(cmd.Name.Name)) != nil:
		return refused(core.Denied, "exchange %s is that of a topic, and goes with it", cmd.Name)
	case x == nil:
		return core.Result{Err: noExchange(cmd.Name)}
	case cmd.IfUnused && x.bindings > 0:
		return refused(core.Conflict, "exchange %s is in use: it has %d bindings", cmd.Name, x.bindings)
	}
	s.removeExchange(tx, x)
	if _, err := s.sweepBindings(tx, bindingsAtOnce); err != nil {
		return s.storeResult(err)
	}
	return core.Result{}
}
