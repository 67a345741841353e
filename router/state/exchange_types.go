package state

import (
	"slices"

	"polylog/core"
	"polylog/core/message"
)

// exchangeType is what an exchange can be.
type exchangeType struct {
	table func(*Exchange) routingTable
	// check is nil for a binding that the type can have.
	check func(*Binding) *core.Error
	// checkExchange, where there is one, is nil for arguments that the exchange can have.
	checkExchange func(*ExchangeConfig) *core.Error
}

// exchangeTypes are by name; TypeDelayed, which routes as another type does, is none of them.
var exchangeTypes = map[string]exchangeType{
	TypeDirect:         {table: func(*Exchange) routingTable { return &directTable{} }},
	TypeFanout:         {table: func(*Exchange) routingTable { return &fanoutTable{} }},
	TypeTopic:          {table: func(*Exchange) routingTable { return &topicTable{} }},
	TypeHeaders:        {table: func(*Exchange) routingTable { return &headersTable{} }, check: checkHeadersBinding},
	TypeRandom:         {table: func(*Exchange) routingTable { return &randomTable{} }},
	TypeModulusHash:    {table: func(*Exchange) routingTable { return &modulusTable{} }},
	TypeConsistentHash: {table: newHashTable, check: checkWeight, checkExchange: checkHashed},
}

// CheckExchange is nil for a configuration that an exchange can have, and else of kind
// Invalid.
func CheckExchange(c *ExchangeConfig) error {
	if err := c.check(); err != nil {
		return err
	}
	return nil
}

// routesAs is how an exchange routes, when it does.
func (c *ExchangeConfig) routesAs() (exchangeType, bool) {
	name := c.Type
	if name == TypeDelayed {
		v, _ := c.Arguments.Get(argDelayedType)
		name = v.Str()
	}
	t, ok := exchangeTypes[name]
	return t, ok
}

func (c *ExchangeConfig) check() *core.Error {
	t, ok := c.routesAs()
	switch {
	case !ok && c.Type == TypeDelayed:
		return core.E(core.Invalid, "Invalid argument, '%s' must be an existing exchange type", argDelayedType)
	case !ok:
		return core.E(core.Invalid, "unknown exchange type '%.80s'", c.Type)
	}
	if v, ok := c.Arguments.Get(ArgAlternate); ok && v.Kind() != message.KindString {
		return core.E(core.Invalid, "invalid type for argument %s: %s", ArgAlternate, v)
	}
	if t.checkExchange != nil {
		return t.checkExchange(c)
	}
	return nil
}

func newRoutingTable(x *Exchange) routingTable {
	if t, ok := x.routesAs(); ok {
		return t.table(x)
	}
	return &fanoutTable{} // of a newer program's type; levels keep that from happening
}

// targets are destinations in order, each with how many bindings lead there.
type targets []target

type target struct {
	to *destination
	n  int
}

func (ts targets) find(d *destination) (int, bool) {
	return slices.BinarySearchFunc(ts, d, func(t target, d *destination) int { return t.to.compare(d.destinationID) })
}

func (ts *targets) add(d *destination) {
	i, ok := ts.find(d)
	if ok {
		(*ts)[i].n++
		return
	}
	*ts = slices.Insert(*ts, i, target{d, 1})
}

func (ts *targets) remove(d *destination) {
	if i, ok := ts.find(d); ok {
		if (*ts)[i].n--; (*ts)[i].n == 0 {
			*ts = slices.Delete(*ts, i, i+1)
		}
	}
}

func (ts targets) reach(m *matching) {
	for i := range ts {
		m.reach(ts[i].to)
	}
}

// pick reaches the one at n, counted round, or the next one that is not gone.
func (ts targets) pick(n uint64, m *matching) {
	for i := range uint64(len(ts)) {
		if d := ts[(n+i)%uint64(len(ts))].to; !d.gone {
			m.reach(d)
			return
		}
	}
}

// directTable sends to the bindings that have the message's key.
type directTable struct{ byKey map[string]*targets }

func (t *directTable) add(l *link) {
	ts := t.byKey[l.key]
	if ts == nil {
		if t.byKey == nil {
			t.byKey = map[string]*targets{}
		}
		ts = new(targets)
		t.byKey[l.key] = ts
	}
	ts.add(l.to)
}

func (t *directTable) remove(l *link) {
	if ts := t.byKey[l.key]; ts != nil {
		if ts.remove(l.to); len(*ts) == 0 {
			delete(t.byKey, l.key)
		}
	}
}

func (t *directTable) match(p *passage, m *matching) {
	for _, key := range p.keys {
		if ts := t.byKey[string(key)]; ts != nil {
			ts.reach(m)
		}
	}
}

// fanoutTable sends to all.
type fanoutTable struct{ targets }

func (t *fanoutTable) add(l *link)                   { t.targets.add(l.to) }
func (t *fanoutTable) remove(l *link)                { t.targets.remove(l.to) }
func (t *fanoutTable) match(_ *passage, m *matching) { t.reach(m) }

// randomTable sends to any one.
type randomTable struct{ fanoutTable }

func (t *randomTable) match(p *passage, m *matching) { t.pick(place(m.at, p), m) }

// modulusTable sends to the one that the key's hash picks.
type modulusTable struct{ fanoutTable }

func (t *modulusTable) match(p *passage, m *matching) { t.pick(hashOf(p.keys[0]), m) }
