package state

import (
	"fmt"
	"strconv"
	"strings"

	"polylog/core"
	"polylog/core/message"
)

// exchangeCommand has the commands about exchanges, bindings and namespaces. NS:NAME is a
// name in another namespace than the default one:
//
//	exchange NAME type=TYPE [auto-delete] [internal]      lines: arguments
//	delete-exchange NAME [if-unused]
//	bind SOURCE DESTINATION [key=KEY] [exchange]          lines: arguments
//	unbind SOURCE DESTINATION [key=KEY] [exchange]        lines: arguments
//	publish EXCHANGE [key=KEY,…] [record-key=KEY] [deliver-at=MS] [expires-at=MS]
//	    lines: headers; the default one is "-"
//	namespace NAME                                        lines: attributes
//	delete-namespace NAME
func (s *script) exchangeCommand() (core.Command, func(core.Result) string) {
	word := func(n int) core.Name {
		v := ""
		if n < len(s.d.CmdArgs) {
			v = s.d.CmdArgs[n].Key
		}
		return scriptName(v)
	}
	key, _ := s.option("key")
	switch s.d.Cmd {
	case "exchange":
		c := DeclareExchange{Name: word(0), Config: ExchangeConfig{Durable: true, Arguments: s.table()}}
		c.Config.Type, _ = s.option("type")
		_, c.Config.AutoDelete = s.option("auto-delete")
		_, c.Config.Internal = s.option("internal")
		return c.Command(), func(r core.Result) string {
			x, created, err := DecodeDeclaredExchange(c.Name, r.Body)
			s.must(err)
			return fmt.Sprintf(" exchange %d of type %s created=%v", x.ID, x.Type, created)
		}
	case "delete-exchange":
		c := DeleteExchange{Name: word(0)}
		_, c.IfUnused = s.option("if-unused")
		return c.Command(), nil
	case "bind", "unbind":
		b := Binding{Source: word(0), Destination: word(1), Key: key, Arguments: s.table()}
		_, b.ToExchange = s.option("exchange")
		if s.d.Cmd == "bind" {
			return (&Bind{b}).Command(), nil
		}
		return (&Unbind{b}).Command(), nil
	case "publish":
		x := word(0)
		x.Name = strings.TrimPrefix(x.Name, "-")
		return PublishCommand(x, strings.Split(key, ","), s.message()), func(r core.Result) string {
			if r.Start != 0 {
				return fmt.Sprintf(" to %d, rejected", r.Offset)
			}
			return fmt.Sprintf(" to %d", r.Offset)
		}
	case "namespace":
		c := CreateNamespace{Name: s.first(), Attributes: map[string]string{}}
		for _, a := range s.changes() {
			c.Attributes[a.Key] = a.Value
		}
		return c.Command(), func(r core.Result) string { return fmt.Sprintf(" created=%v", r.Body[0] == 1) }
	case "delete-namespace":
		c := DeleteNamespace{Name: s.first()}
		return c.Command(), nil
	}
	return s.subscriptionCommand()
}

func scriptName(v string) core.Name {
	if namespace, name, ok := strings.Cut(v, ":"); ok {
		return core.Name{Namespace: namespace, Name: name}
	}
	return core.TopicName(v)
}

// table is the input's lines: name=text, name=5 (a number), name (without a value).
func (s *script) table() (t message.Table) {
	for _, f := range s.lines() {
		name, v, ok := strings.Cut(f[0], "=")
		h := message.Header{Name: name}
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			h.Value = message.Int(message.KindInt64, n)
		} else if ok {
			h.Value = message.String(v)
		}
		t = append(t, h)
	}
	return t
}

// message is a batch of the message that publish means.
func (s *script) message() []byte {
	m := message.Message{Value: []byte("v"), Time: s.log.time, Headers: s.table()}
	if k, ok := s.option("record-key"); ok {
		m.Key = []byte(k)
	}
	if v, ok := s.option("deliver-at"); ok {
		m.DeliverAt = s.number(v)
	}
	if v, ok := s.option("expires-at"); ok {
		m.ExpiresAt = s.number(v)
	}
	b, err := m.Batch(nil)
	s.must(err)
	return b
}

// dumpRouting is exchanges and bindings, those that wait to be swept included.
func (m *machine) dumpRouting(b *strings.Builder) {
	namespaces, err := ReadNamespaces(m.store)
	m.must(err)
	for _, n := range namespaces {
		if n.Name != core.DefaultNamespace {
			fmt.Fprintf(b, "namespace %s created=%d deleted=%v", n.Name, n.Created, n.Deleted)
			for _, a := range sortedPairs(n.Attributes) {
				fmt.Fprintf(b, " %s", a)
			}
			b.WriteByte('\n')
			for _, operator := range [...]bool{false, true} {
				for _, p := range m.state.Policies(n.Name, operator) {
					fmt.Fprintf(b, "policy %s of %s operator=%v\n", p.Name, p.Namespace, operator)
				}
			}
		}
		xs, err := readExchanges(m.store, n.Name, "", 1000)
		m.must(err)
		for _, x := range xs {
			fmt.Fprintf(b, "exchange %s is %d created=%d type=%s", x.Name, x.ID, x.Created, x.Type)
			for _, a := range x.Arguments {
				fmt.Fprintf(b, " %s=%s", a.Name, a.Value)
			}
			if x.Topic != 0 {
				fmt.Fprintf(b, " of the topic with queue %d", x.Topic)
			}
			b.WriteByte('\n')
		}
	}
	start := []byte{prefixBinding, bySource}
	m.must(m.store.Scan(start, after(start), func(k, v []byte) bool {
		id, _ := parseBindingKey(k)
		bd, err := decodeBinding(v)
		m.must(err)
		fmt.Fprintf(b, "binding %s -> %s (%d %d) key=%q", bd.Source, bd.Destination, id.to.kind, id.to.id, bd.Key)
		for _, a := range bd.Arguments {
			fmt.Fprintf(b, " %s=%s", a.Name, a.Value)
		}
		b.WriteByte('\n')
		return true
	}))
	timers, err := m.state.Timers().Scan(m.store, 0, nil, Never, 1000, nil)
	m.must(err)
	for _, t := range timers {
		exchange, d, err := decodeDelayed(t.ID[1:], t.Value)
		m.must(err)
		fmt.Fprintf(b, "exchange %d holds back keys=%q of entry %d until %d\n", exchange, d.keys, d.ref.Index, t.Due)
	}
	start = []byte{prefixBinding, 0}
	m.must(m.store.Scan(start, after(start), func(k, v []byte) bool {
		fmt.Fprintf(b, "doomed bindings %x from %x\n", k[2:], v[1:])
		return true
	}))
}
