package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/wire"
	"polylog/index"
)

// Binding leads from an exchange to a queue, a topic or another exchange of its namespace.
// Two are the same when all of it is.
type Binding struct {
	Source      core.Name
	ToExchange  bool      // Destination is an exchange
	Destination core.Name // else a queue, or a topic where there is no queue of that name
	Key         string
	Arguments   message.Table // in order of their names
}

// sortArguments puts arguments into an order in which equal ones are equal.
func sortArguments(t message.Table) message.Table {
	t = slices.Clone(t)
	slices.SortStableFunc(t, func(a, b message.Header) int { return strings.Compare(a.Name, b.Name) })
	return t
}

func (b *Binding) appendTo(dst []byte) []byte {
	dst = wire.AppendBool(appendName(dst, b.Source), b.ToExchange)
	dst = wire.AppendString(appendName(dst, b.Destination), b.Key)
	return message.AppendTable(dst, b.Arguments)
}

func readBinding(r *wire.Reader) Binding {
	b := Binding{Source: readName(r), ToExchange: r.Bool(), Destination: readName(r), Key: r.String()}
	b.Arguments = sortArguments(message.ReadTable(r))
	return b
}

// destinationKind says what a binding leads to. The numbers are on disk.
type destinationKind uint8

const (
	toQueue    destinationKind = 1
	toTopic    destinationKind = 2
	toExchange destinationKind = 3
)

// destinationID names what a binding leads to, for ever: the id of a queue or of an exchange,
// or a topic's first queue, which stays its first and is never another's.
type destinationID struct {
	kind destinationKind
	id   uint64
}

func (d destinationID) appendTo(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(append(dst, byte(d.kind)), d.id)
}

func (d destinationID) compare(o destinationID) int {
	return cmp.Or(cmp.Compare(d.kind, o.kind), cmp.Compare(d.id, o.id))
}

// bindingID is a binding as the KV space has it, twice: below its source, and with the same
// after it below its destination.
type bindingID struct {
	source uint64 // an exchange
	to     destinationID
	rest   string // length and key, and a digest of the arguments where there are any
}

func newBindingID(source uint64, to destinationID, b *Binding) bindingID {
	rest := wire.AppendString(make([]byte, 0, len(b.Key)+20), b.Key)
	if len(b.Arguments) > 0 {
		sum := sha256.Sum256(message.AppendTable(nil, b.Arguments))
		rest = append(rest, sum[:16]...)
	}
	return bindingID{source, to, string(rest)}
}

const (
	bySource       = 's'
	byDestination  = 'd'
	destinationLen = 9 // of an encoded destinationID
)

func sourcePrefix(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixBinding, bySource}, id)
}

func destinationPrefix(d destinationID) []byte {
	return d.appendTo([]byte{prefixBinding, byDestination})
}

func (id *bindingID) sourceKey() []byte {
	return append(id.to.appendTo(sourcePrefix(id.source)), id.rest...)
}

func (id *bindingID) destinationKey() []byte {
	return append(binary.BigEndian.AppendUint64(destinationPrefix(id.to), id.source), id.rest...)
}

// parseBindingKey reads a key of either kind.
func parseBindingKey(k []byte) (id bindingID, ok bool) {
	const numbers = 2 + 8 + destinationLen
	if len(k) < numbers {
		return id, false
	}
	source, to := k[2:10], k[10:numbers]
	if k[1] == byDestination {
		to, source = k[2:2+destinationLen], k[2+destinationLen:numbers]
	}
	id.source = binary.BigEndian.Uint64(source)
	id.to = destinationID{destinationKind(to[0]), binary.BigEndian.Uint64(to[1:])}
	id.rest = string(k[numbers:])
	return id, true
}

// A binding's value, below its source: version byte, binding. Below its destination it is
// empty.
func (b *Binding) encode() []byte { return b.appendTo([]byte{valueVersion}) }

func decodeBinding(v []byte) (*Binding, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "binding"); err != nil {
		return nil, err
	}
	b := readBinding(&r)
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "binding: %v", err)
	}
	return &b, nil
}

// BindingQuery says which bindings are looked for: those with this source, or this
// destination, or both.
type BindingQuery struct {
	Source      *core.Name
	Destination *core.Name
	ToExchange  bool // what kind of destination
	Limit       int
}

// Bindings are bindings, in no order that means anything. The ones by which the default
// exchange sends to every queue are not among them. The error is of kind NotFound when there
// is no such source or destination.
func (s *State) Bindings(q BindingQuery) ([]Binding, error) {
	var source *Exchange
	var to destinationID
	var err error
	if q.Source != nil {
		if source, err = s.Exchange(*q.Source); err != nil {
			return nil, err
		} else if source == nil {
			return nil, noExchange(*q.Source)
		}
	}
	if q.Destination != nil {
		if to, err = s.destinationForReading(*q.Destination, q.ToExchange); err != nil {
			return nil, err
		}
	}
	var prefix []byte
	switch {
	case source != nil && q.Destination != nil:
		prefix = to.appendTo(sourcePrefix(source.ID))
	case source != nil:
		prefix = sourcePrefix(source.ID)
	case q.Destination != nil:
		prefix = destinationPrefix(to)
	default:
		return nil, core.E(core.Invalid, "bindings of neither a source nor a destination")
	}
	return s.readBindings(prefix, q.Limit)
}

// destinationForReading is what a name means as a destination; one without an id has no
// bindings.
func (s *State) destinationForReading(n core.Name, exchange bool) (d destinationID, err error) {
	if exchange {
		x, err := s.Exchange(n)
		if err != nil {
			return d, err
		} else if x == nil {
			return d, noExchange(n)
		}
		return destinationID{toExchange, x.ID}, nil
	}
	q, err := ReadQueue(s.store, n)
	switch {
	case err != nil:
		return d, err
	case q != nil:
		return destinationID{toQueue, uint64(q.ID)}, nil
	}
	if t, ok := s.Topic(n); ok {
		return destinationID{toTopic, uint64(t.Queues[0])}, nil
	}
	return d, noDestination(n, false)
}

// readBindings reads the bindings whose keys begin so, but for those whose source or
// destination is gone and which wait to be swept.
func (s *State) readBindings(prefix []byte, limit int) (bs []Binding, err error) {
	var bad error
	err = s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		id, ok := parseBindingKey(k)
		if !ok {
			bad = core.E(core.Corrupt, "binding with the key %x", k)
			return false
		}
		if k[1] == byDestination {
			if v, ok, bad = s.store.Get(id.sourceKey()); bad != nil || !ok {
				return bad == nil // swept meanwhile
			}
		}
		var b *Binding
		if b, bad = decodeBinding(v); bad != nil {
			return false
		}
		if ok, bad = s.leads(id, b); ok {
			bs = append(bs, *b)
		}
		return bad == nil && len(bs) < limit
	})
	if err == nil {
		err = bad
	}
	return bs, err
}

// leads reports whether both ends of a binding are still there.
func (s *State) leads(id bindingID, b *Binding) (bool, error) {
	r := index.Reader(s.store)
	isExchange := func(n core.Name, id uint64) (bool, error) {
		x, err := readExchange(r, n)
		return x != nil && x.ID == id, err
	}
	if ok, err := isExchange(b.Source, id.source); !ok {
		return false, err
	}
	switch id.to.kind {
	case toExchange:
		return isExchange(b.Destination, id.to.id)
	case toTopic:
		_, _, ok := s.TopicOfQueue(core.QueueID(id.to.id))
		return ok, nil
	default:
		q, err := ReadQueueByID(r, core.QueueID(id.to.id))
		return q != nil, err
	}
}

func noExchange(n core.Name) *core.Error {
	return core.E(core.NotFound, "exchange %s does not exist", n)
}

func noDestination(n core.Name, exchange bool) *core.Error {
	if exchange {
		return noExchange(n)
	}
	return core.E(core.NotFound, "there is neither a queue nor a topic %s", n)
}
