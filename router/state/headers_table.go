package state

import (
	"slices"
	"strings"

	"polylog/core"
	"polylog/core/message"
)

// argMatch says what a binding's other arguments mean to a headers exchange: whether all of
// them are to match a message's headers, or any. Those that begin with "x-" count only
// where it says so.
const argMatch = "x-match"

// headersTable sends to the bindings whose arguments match the message's headers.
type headersTable struct{ bindings []headersBinding }

type headersBinding struct {
	to        *destination
	arguments message.Table // all of them
	any       bool
	wanted    message.Table // those that count
}

// checkHeadersBinding is nil for arguments that a headers exchange understands. The texts are
// RabbitMQ's.
func checkHeadersBinding(b *Binding) *core.Error {
	v, ok := b.Arguments.Get(argMatch)
	if !ok {
		return nil
	}
	if v.Kind() != message.KindString {
		return core.E(core.Invalid, "Invalid x-match field value %s; expected a string", v)
	}
	switch v.Str() {
	case "all", "any", "all-with-x", "any-with-x":
		return nil
	}
	return core.E(core.Invalid, "Invalid x-match field value <<%q>>; expected all, any, all-with-x, or any-with-x", v.Str())
}

func (t *headersTable) add(l *link) {
	b := headersBinding{to: l.to, arguments: l.arguments}
	withX := false
	if v, ok := l.arguments.Get(argMatch); ok {
		b.any = strings.HasPrefix(v.Str(), "any")
		withX = strings.HasSuffix(v.Str(), "-with-x")
	}
	for _, a := range l.arguments {
		if a.Name != argMatch && (withX || !strings.HasPrefix(a.Name, "x-")) {
			b.wanted = append(b.wanted, a)
		}
	}
	t.bindings = append(t.bindings, b)
}

func (t *headersTable) remove(l *link) {
	for i := range t.bindings {
		if b := &t.bindings[i]; b.to == l.to && b.arguments.Equal(l.arguments) {
			last := len(t.bindings) - 1
			t.bindings[i], t.bindings[last] = t.bindings[last], headersBinding{}
			t.bindings = t.bindings[:last]
			return
		}
	}
}

func (t *headersTable) match(p *passage, m *matching) {
	if len(t.bindings) == 0 {
		return
	}
	headers := p.table()
	get := headers.Get
	if len(headers) > fewHeaders {
		get = byName(headers)
	}
	for i := range t.bindings {
		if b := &t.bindings[i]; b.matches(get) {
			m.reach(b.to)
		}
	}
}

// fewHeaders are as many as are looked through faster than a map is made.
const fewHeaders = 16

// byName is headers.Get for a message with many headers.
func byName(headers message.Table) func(string) (message.Value, bool) {
	first := make(map[string]int, len(headers))
	for i, h := range slices.Backward(headers) {
		first[h.Name] = i
	}
	return func(name string) (message.Value, bool) {
		i, ok := first[name]
		if !ok {
			return message.Value{}, false
		}
		return headers[i].Value, true
	}
}

// matches: a wanted header without a value is there to be present.
func (b *headersBinding) matches(get func(string) (message.Value, bool)) bool {
	for _, w := range b.wanted {
		v, ok := get(w.Name)
		ok = ok && (w.Value.Kind() == message.KindVoid || v.Same(w.Value))
		if ok == b.any {
			return ok
		}
	}
	return !b.any
}
