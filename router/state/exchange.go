package state

import (
	"slices"
	"strings"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/wire"
	"polylog/index"
)

// Exchange sends what is published to it to the destinations of its bindings: queues, topics
// and other exchanges. Every namespace has the predeclared ones, every topic that is not
// internal has one of its name, of type topic; those are stored with their first binding.
type Exchange struct {
	Name core.Name
	// ID names it for ever: an exchange that is declared again under its name is another
	// one. 0: it was not stored yet.
	ID      uint64
	Created int64 // ms; 0 of a predeclared one
	ExchangeConfig
	// Topic is the first queue of the topic whose exchange it is; 0 for all others.
	Topic core.QueueID
}

// ExchangeConfig is what an exchange's creator decides, for ever.
type ExchangeConfig struct {
	Type       string
	Durable    bool // nothing follows from it: all exchanges outlive the nodes
	AutoDelete bool // it goes with its last binding
	Internal   bool // only other exchanges publish to it
	Arguments  message.Table
}

// The types of exchanges.
const (
	TypeDirect         = "direct"
	TypeFanout         = "fanout"
	TypeTopic          = "topic"
	TypeHeaders        = "headers"
	TypeConsistentHash = "x-consistent-hash"
	TypeModulusHash    = "x-modulus-hash"
	TypeRandom         = "x-random"
	TypeDelayed        = "x-delayed-message"
)

// Arguments of exchanges.
const (
	ArgAlternate    = "alternate-exchange"
	argDelayedType  = "x-delayed-type"
	argHashHeader   = "hash-header"
	argHashProperty = "hash-property"
)

// predeclared are in every namespace, by name, beside the default one, which has no name.
var predeclared = [...]Exchange{
	{Name: core.Name{Name: "amq.direct"}, ExchangeConfig: ExchangeConfig{Type: TypeDirect, Durable: true}},
	{Name: core.Name{Name: "amq.fanout"}, ExchangeConfig: ExchangeConfig{Type: TypeFanout, Durable: true}},
	{Name: core.Name{Name: "amq.headers"}, ExchangeConfig: ExchangeConfig{Type: TypeHeaders, Durable: true}},
	{Name: core.Name{Name: "amq.match"}, ExchangeConfig: ExchangeConfig{Type: TypeHeaders, Durable: true}},
	{Name: core.Name{Name: "amq.rabbitmq.trace"}, ExchangeConfig: ExchangeConfig{Type: TypeTopic, Durable: true, Internal: true}},
	{Name: core.Name{Name: "amq.topic"}, ExchangeConfig: ExchangeConfig{Type: TypeTopic, Durable: true}},
}

// Predeclared is the exchange of a namespace that is there without having been declared; nil
// when there is none of that name. The default one has the name "".
func Predeclared(n core.Name) *Exchange {
	if n.Name == "" {
		return &Exchange{Name: n, ExchangeConfig: ExchangeConfig{Type: TypeDirect, Durable: true}}
	}
	for _, x := range predeclared {
		if x.Name.Name == n.Name {
			x.Name = n
			return &x
		}
	}
	return nil
}

// ofTopic is a topic's exchange, as it is before it is stored.
func ofTopic(t *Topic) Exchange {
	return Exchange{
		Name: t.Name, Created: t.Created, Topic: t.Queues[0],
		ExchangeConfig: ExchangeConfig{Type: TypeTopic, Durable: true},
	}
}

const (
	exchangeDurable = 1 << iota
	exchangeAutoDelete
	exchangeInternal
)

func (c *ExchangeConfig) appendTo(dst []byte) []byte {
	flags := byte(0)
	for i, set := range [...]bool{c.Durable, c.AutoDelete, c.Internal} {
		if set {
			flags |= 1 << i
		}
	}
	dst = append(wire.AppendString(dst, c.Type), flags)
	return message.AppendTable(dst, c.Arguments)
}

func readExchangeConfig(r *wire.Reader) ExchangeConfig {
	c := ExchangeConfig{Type: r.String()}
	flags := r.Byte()
	c.Durable, c.AutoDelete, c.Internal = flags&exchangeDurable != 0, flags&exchangeAutoDelete != 0, flags&exchangeInternal != 0
	c.Arguments = message.ReadTable(r)
	return c
}

// An exchange's value: version byte, id uvarint, created varint, topic uvarint, type, flags
// byte (1 durable, 2 auto-delete, 4 internal), arguments.
func (x *Exchange) encode() []byte {
	b := wire.AppendUvarint([]byte{valueVersion}, x.ID)
	b = wire.AppendVarint(b, x.Created)
	b = wire.AppendUvarint(b, uint64(x.Topic))
	return x.appendTo(b)
}

func decodeExchange(n core.Name, v []byte) (*Exchange, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "exchange"); err != nil {
		return nil, err
	}
	x := &Exchange{Name: n, ID: r.Uvarint(), Created: r.Varint(), Topic: core.QueueID(r.Uvarint())}
	x.ExchangeConfig = readExchangeConfig(&r)
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "exchange %s: %v", n, err)
	}
	return x, nil
}

func exchangePrefix(namespace string) []byte {
	return wire.AppendString([]byte{prefixExchange}, namespace)
}

func exchangeKey(n core.Name) []byte { return append(exchangePrefix(n.Namespace), n.Name...) }

// Exchange finds an exchange, a predeclared one and a topic's included; nil when there is
// none.
func (s *State) Exchange(n core.Name) (*Exchange, error) {
	ns, err := ReadNamespace(s.store, n.Namespace)
	if err != nil || ns == nil {
		return nil, err
	}
	if n.Name == "" {
		return Predeclared(n), nil
	}
	x, err := readExchange(s.store, n)
	if err != nil || x != nil {
		return x, err
	}
	if x := Predeclared(n); x != nil {
		return x, nil
	}
	if t, ok := s.Topic(n); ok && !t.Internal {
		x := ofTopic(t)
		return &x, nil
	}
	return nil, nil
}

// readExchange finds an exchange that was stored.
func readExchange(r index.Reader, n core.Name) (*Exchange, error) {
	v, ok, err := r.Get(exchangeKey(n))
	if err != nil || !ok {
		return nil, err
	}
	return decodeExchange(n, v)
}

// Exchanges are up to limit exchanges of a namespace, those after from, by name. The default
// one is not among them.
func (s *State) Exchanges(namespace, from string, limit int) ([]*Exchange, error) {
	ns, err := ReadNamespace(s.store, namespace)
	if err != nil || ns == nil {
		return nil, err
	}
	all, err := readExchanges(s.store, namespace, from, limit)
	if err != nil {
		return nil, err
	}
	stored := make(map[string]bool, len(all))
	for _, x := range all {
		stored[x.Name.Name] = true
	}
	add := func(x *Exchange) {
		if x.Name.Name > from && !stored[x.Name.Name] {
			all = append(all, x)
		}
	}
	for _, x := range predeclared {
		x.Name.Namespace = namespace
		add(&x)
	}
	for _, t := range s.Topics() {
		if t.Name.Namespace == namespace && !t.Internal {
			x := ofTopic(t)
			add(&x)
		}
	}
	slices.SortFunc(all, func(a, b *Exchange) int { return strings.Compare(a.Name.Name, b.Name.Name) })
	return all[:min(len(all), limit)], nil
}

// readExchanges are up to limit exchanges that were stored, those after from, by name.
func readExchanges(r index.Reader, namespace, from string, limit int) (xs []*Exchange, err error) {
	prefix := exchangePrefix(namespace)
	start := prefix
	if from != "" {
		start = append(append([]byte(nil), prefix...), from+"\x00"...)
	}
	var bad error
	err = r.Scan(start, after(prefix), func(k, v []byte) bool {
		var x *Exchange
		if x, bad = decodeExchange(core.Name{Namespace: namespace, Name: string(k[len(prefix):])}, v); bad == nil {
			xs = append(xs, x)
		}
		return bad == nil && len(xs) < limit
	})
	if err == nil {
		err = bad
	}
	return xs, err
}
