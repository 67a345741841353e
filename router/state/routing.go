package state

import (
	"polylog/core"
	"polylog/core/message"
)

// routing is what exchanges and bindings are in memory, for the applier alone. The KV space
// has the same; a queue or an exchange that no binding leads to costs nothing here.
//
// A binding counts, and stays in its source's table, until it is removed; what leads to
// something that is gone is passed over. So all of this follows from the KV space, whenever
// it was read.
type routing struct {
	vhosts       map[string]*vhost // namespaces, by name
	deleting     map[string]bool   // deleted namespaces that are not swept yet
	exchanges    map[uint64]*exchange
	destinations map[destinationID]*destination
	doomed       doomedBindings
	taps         map[core.QueueID]*exchange // exchanges of topics, by the first queue
	weights      int                        // of the bindings of all hash exchanges
	match        matching
}

// vhost is a namespace.
type vhost struct {
	*Namespace
	exchanges map[string]*exchange
	// queues are queues that were published to by name lately; a cache.
	queues map[string]core.QueueID
}

// exchange is an exchange and what its bindings make of it.
type exchange struct {
	Exchange
	table    routingTable
	bindings int          // of which it is the source
	weights  int          // of its bindings, where it is a hash exchange
	as       *destination // nil when no binding leads to it
	gone     bool
	seen     uint64 // the last match that came by
	// policy is the one of policies that applies to it; nil: none.
	policy   *Policy
	policies *policySet // nil: it was not looked for yet
}

// destination is what bindings lead to.
type destination struct {
	destinationID
	bindings int
	gone     bool
	exchange *exchange // of toExchange
	seen     uint64    // the last match that found it
}

// link is what a routing table is to know of a binding.
type link struct {
	key       string
	arguments message.Table
	to        *destination
}

// routingTable is what an exchange's type makes of its bindings.
type routingTable interface {
	add(l *link)
	remove(l *link) // one that was added
	// match gives m to the destinations that p is for.
	match(p *passage, m *matching)
}

func (r *routing) init() {
	*r = routing{
		vhosts:       map[string]*vhost{},
		deleting:     map[string]bool{},
		exchanges:    map[uint64]*exchange{},
		destinations: map[destinationID]*destination{},
		taps:         map[core.QueueID]*exchange{},
	}
	r.addVhost(&Namespace{Name: core.DefaultNamespace})
}

func (r *routing) addVhost(n *Namespace) *vhost {
	v := &vhost{n, map[string]*exchange{}, map[string]core.QueueID{}}
	for _, x := range predeclared {
		x.Name.Namespace = n.Name
		v.exchanges[x.Name.Name] = newExchange(x)
	}
	r.vhosts[n.Name] = v
	return v
}

func newExchange(x Exchange) *exchange { return &exchange{Exchange: x, table: newRoutingTable(&x)} }

// stored notes an exchange that has an id.
func (r *routing) stored(v *vhost, x *exchange) {
	r.exchanges[x.ID] = x
	v.exchanges[x.Name.Name] = x
	if x.Topic != 0 {
		r.taps[x.Topic] = x
	}
}

// destination is what bindings to d share.
func (r *routing) destination(d destinationID) *destination {
	to := r.destinations[d]
	if to == nil {
		to = &destination{destinationID: d}
		if d.kind == toExchange {
			if to.exchange = r.exchanges[d.id]; to.exchange != nil {
				to.exchange.as = to
			} else {
				to.gone = true
			}
		}
		r.destinations[d] = to
	}
	return to
}

// bind counts a binding in.
func (r *routing) bind(id bindingID, b *Binding) {
	to := r.destination(id.to)
	to.bindings++
	if x := r.exchanges[id.source]; x != nil {
		w := x.weight(b.Key)
		x.bindings, x.weights, r.weights = x.bindings+1, x.weights+w, r.weights+w
		x.table.add(&link{b.Key, b.Arguments, to})
	}
}

// unbind counts a binding out and returns its source; nil when that is gone.
func (r *routing) unbind(id bindingID, b *Binding) *exchange {
	to := r.destinations[id.to]
	x := r.exchanges[id.source]
	if x != nil {
		w := x.weight(b.Key)
		x.bindings, x.weights, r.weights = x.bindings-1, x.weights-w, r.weights-w
		x.table.remove(&link{b.Key, b.Arguments, to})
	}
	if to.bindings--; to.bindings == 0 {
		delete(r.destinations, id.to)
		if to.exchange != nil {
			to.exchange.as = nil
		}
	}
	return x
}

// loadRouting takes namespaces, exchanges and bindings from the store.
func (s *State) loadRouting() error {
	r := &s.routing
	r.init()
	r.match.s = s
	namespaces, err := ReadNamespaces(s.store)
	if err != nil {
		return err
	}
	for _, n := range namespaces {
		if n.Deleted {
			r.deleting[n.Name] = true
		}
		v := r.addVhost(n) // the default one again, where it was stored
		if err := r.loadExchanges(s, v); err != nil {
			return err
		}
		if n.Deleted {
			delete(r.vhosts, n.Name)
		}
	}
	if err := s.loadBindings(); err != nil {
		return err
	}
	defer s.publishSweep()
	return s.loadDoomedBindings()
}

func (r *routing) loadExchanges(s *State, v *vhost) error {
	prefix := exchangePrefix(v.Name)
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(k, val []byte) bool {
		var x *Exchange
		if x, bad = decodeExchange(core.Name{Namespace: v.Name, Name: string(k[len(prefix):])}, val); bad == nil {
			r.stored(v, newExchange(*x))
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return err
}

func (s *State) loadBindings() error {
	prefix := []byte{prefixBinding, bySource}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		id, ok := parseBindingKey(k)
		if !ok {
			bad = core.E(core.Corrupt, "binding with the key %x", k)
			return false
		}
		var b *Binding
		if b, bad = decodeBinding(v); bad == nil {
			s.routing.bind(id, b)
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return err
}

// findTopic is the topic that is an exchange of that name in v, and a destination; nil when
// there is none.
func (s *State) findTopic(v *vhost, name []byte) *Topic {
	t := s.all.byName[core.Name{Namespace: v.Name, Name: string(name)}]
	if t == nil || t.Internal {
		return nil
	}
	return t
}

// forgetQueue is told that a queue is gone.
func (r *routing) forgetQueue(n core.Name) {
	if v := r.vhosts[n.Namespace]; v != nil {
		delete(v.queues, n.Name)
	}
}

// inNamespace is nil where the namespace of a name is there. Programs of lower levels do not
// look.
func (s *State) inNamespace(n core.Name) *core.Error {
	if s.level >= 3 && s.routing.vhosts[n.Namespace] == nil {
		return noNamespace(n.Namespace)
	}
	return nil
}

// maxQueuesByName bounds a vhost's cache of names: when it is full it is emptied.
const maxQueuesByName = 1 << 16

// findQueue is the queue of that name in v; 0 when there is none.
func (s *State) findQueue(tx txn, v *vhost, name []byte) (core.QueueID, error) {
	if id, ok := v.queues[string(name)]; ok {
		return id, nil
	}
	val, ok, err := tx.Get(queueNameKey(core.Name{Namespace: v.Name, Name: string(name)}))
	if err != nil || !ok {
		return 0, err
	}
	id, err := decodeQueueID(val)
	if err != nil {
		return 0, err
	}
	if len(v.queues) >= maxQueuesByName {
		clear(v.queues)
	}
	v.queues[string(name)] = id
	return id, nil
}
