package state

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"polylog/core"
	"polylog/core/message"
)

// hashTable sends each message to one destination, the same one for the same key as long as
// the bindings stay, and shares the keys out by the bindings' weights, which are their keys.
// Each binding has points on a ring of hashes, as many as its weight says; a message goes to
// the first point from its own hash on. A binding that comes takes keys from all others, and
// moves none between them.
type hashTable struct {
	ring             []hashPoint // by hash
	header, property string      // what is hashed instead of the routing key
}

type hashPoint struct {
	hash uint64
	to   *destination
}

func (p hashPoint) compare(o hashPoint) int {
	return cmp.Or(cmp.Compare(p.hash, o.hash), p.to.compare(o.to.destinationID))
}

const (
	pointsPerWeight = 32 // one weight's share is then right to about a sixth
	maxWeight       = 10_000
	// The weights of one exchange, and of all: 16 bytes a point.
	maxWeights    = 1 << 15
	maxAllWeights = 1 << 16
)

func newHashTable(x *Exchange) routingTable {
	t := &hashTable{}
	if v, ok := x.Arguments.Get(argHashHeader); ok {
		t.header = v.Str()
	}
	if v, ok := x.Arguments.Get(argHashProperty); ok {
		t.property = v.Str()
	}
	return t
}

// checkHashed is nil for arguments that say what is to be hashed.
func checkHashed(c *ExchangeConfig) *core.Error {
	header, isHeader := c.Arguments.Get(argHashHeader)
	property, isProperty := c.Arguments.Get(argHashProperty)
	switch {
	case isHeader && isProperty:
		return core.E(core.Invalid, "%s and %s are mutually exclusive", argHashHeader, argHashProperty)
	case isHeader && header.Kind() != message.KindString:
		return core.E(core.Invalid, "%s is %s, want the name of a header", argHashHeader, header)
	case !isProperty:
		return nil
	}
	switch property.Str() {
	case "correlation_id", "message_id", "timestamp":
		return nil
	}
	return core.E(core.Invalid, "unsupported property: %s", property)
}

// weightOf is the weight that a binding's key says; 0 where it says none.
func weightOf(key string) int {
	n, err := strconv.Atoi(key)
	if err != nil {
		return 0
	}
	return min(max(n, 0), maxWeight)
}

// checkWeight is nil for a binding whose key is a weight. The texts are RabbitMQ's, which knows
// no largest one.
func checkWeight(b *Binding) *core.Error {
	n, err := strconv.Atoi(b.Key)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return core.E(core.Invalid, "The binding key must be an integer: <<\"%.80s\">>", b.Key)
	case n < 1:
		return core.E(core.Invalid, "The binding key must be greater than 0")
	case n > maxWeight:
		return core.E(core.Invalid, "The binding key must be at most %d", maxWeight)
	}
	return nil
}

// weight is what a binding of x with a key weighs; 0 where x is of another type.
func (x *exchange) weight(key string) int {
	if _, ok := x.table.(*hashTable); !ok {
		return 0
	}
	return weightOf(key)
}

// roomFor is nil when there is room for the weight of a binding of x.
func (r *routing) roomFor(x *exchange, b *Binding) *core.Error {
	switch w := x.weight(b.Key); {
	case w > 0 && x.weights+w > maxWeights:
		return core.E(core.Limit, "the weights of exchange %s are more than %d in all", b.Source, maxWeights)
	case w > 0 && r.weights+w > maxAllWeights:
		return core.E(core.Limit, "the weights of all %s exchanges are more than %d", TypeConsistentHash, maxAllWeights)
	}
	return nil
}

// points are those of a binding, in order.
func points(l *link) []hashPoint {
	w := weightOf(l.key)
	ps := make([]hashPoint, w*pointsPerWeight)
	seed := mix(uint64(l.to.kind)<<56^l.to.id) ^ uint64(w)
	for i := range ps {
		ps[i] = hashPoint{mix(seed + uint64(i)<<32), l.to}
	}
	slices.SortFunc(ps, hashPoint.compare)
	return ps
}

func (t *hashTable) add(l *link) {
	more := points(l)
	ring := make([]hashPoint, 0, len(t.ring)+len(more))
	for _, p := range t.ring {
		for len(more) > 0 && more[0].compare(p) < 0 {
			ring, more = append(ring, more[0]), more[1:]
		}
		ring = append(ring, p)
	}
	t.ring = append(ring, more...)
}

func (t *hashTable) remove(l *link) {
	less := points(l)
	t.ring = slices.DeleteFunc(t.ring, func(p hashPoint) bool {
		if len(less) > 0 && less[0] == p {
			less = less[1:]
			return true
		}
		return false
	})
}

func (t *hashTable) match(p *passage, m *matching) {
	if len(t.ring) == 0 {
		return
	}
	h := t.hash(p)
	at, _ := slices.BinarySearchFunc(t.ring, h, func(p hashPoint, h uint64) int { return cmp.Compare(p.hash, h) })
	for i := range t.ring {
		if d := t.ring[(at+i)%len(t.ring)].to; !d.gone {
			m.reach(d)
			return
		}
	}
}

// hash is that of what the exchange's arguments say, of nothing where the message lacks it.
func (t *hashTable) hash(p *passage) uint64 {
	if t.header == "" && t.property == "" {
		return hashOf(p.keys[0])
	}
	r := p.record()
	switch {
	case r == nil:
	case t.header != "":
		if v, ok := message.HeaderOf(r, t.header); ok {
			return hashOf([]byte(v.String()))
		}
	case t.property == "timestamp":
		return mix(uint64(r.Time))
	default:
		name := "message-id"
		if t.property == "correlation_id" {
			name = "correlation-id"
		}
		for _, h := range r.Headers {
			if h.Key == name {
				return hashOf(h.Value)
			}
		}
	}
	return hashOf(nil)
}

// hashOf is a hash of bytes (FNV-1a, mixed) that is the same everywhere and for ever.
func hashOf(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}

// mix has every bit of x change about half of the result's (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
