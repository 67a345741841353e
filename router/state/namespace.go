package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Namespace is AMQP's virtual host: exchanges and queues of one cannot be reached from
// another. The default one, AMQP's "/", is always there.
type Namespace struct {
	Name       string
	Created    int64             // ms; 0 of the default one
	Attributes map[string]string // belong to the protocols
	// Deleted says that it is gone, and what was in it is being removed.
	Deleted bool
}

// maxNamespaceName bounds a name, in bytes.
const maxNamespaceName = 255

// A namespace's value: version byte, created varint, deleted byte, attributes.
func (n *Namespace) encode() []byte {
	b := wire.AppendVarint([]byte{valueVersion}, n.Created)
	return appendConfigs(wire.AppendBool(b, n.Deleted), n.Attributes)
}

func decodeNamespace(name string, v []byte) (*Namespace, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "namespace"); err != nil {
		return nil, err
	}
	n := &Namespace{Name: name, Created: r.Varint(), Deleted: r.Bool(), Attributes: readConfigs(&r)}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "namespace %.80q: %v", name, err)
	}
	return n, nil
}

// namespaceKey cannot be that of an exchange: namespaces' names are not empty.
func namespaceKey(name string) []byte { return append([]byte{prefixExchange, 0}, name...) }

// ReadNamespace finds a namespace; nil when there is none.
func ReadNamespace(r index.Reader, name string) (*Namespace, error) {
	v, ok, err := r.Get(namespaceKey(name))
	switch {
	case err != nil:
		return nil, err
	case ok:
		n, err := decodeNamespace(name, v)
		if err != nil || n.Deleted {
			return nil, err
		}
		return n, nil
	case name == core.DefaultNamespace:
		return &Namespace{Name: name}, nil
	}
	return nil, nil
}

// ReadNamespaces are all namespaces, by name, those that are being deleted included.
func ReadNamespaces(r index.Reader) (all []*Namespace, err error) {
	prefix := namespaceKey("")
	var bad error
	hasDefault := false
	err = r.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var n *Namespace
		if n, bad = decodeNamespace(string(k[len(prefix):]), v); bad == nil {
			all = append(all, n)
			hasDefault = hasDefault || n.Name == core.DefaultNamespace
		}
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err == nil && !hasDefault {
		all = append(all, &Namespace{Name: core.DefaultNamespace})
	}
	return all, err
}

// CreateNamespace creates a namespace, or sets the attributes of the one of that name. The
// result's body is a byte: 1 when it is new.
type CreateNamespace struct {
	Name       string
	Attributes map[string]string
}

// Command encodes: name, attributes.
func (c *CreateNamespace) Command() core.Command {
	return core.Command{Code: CodeCreateNamespace, Head: appendConfigs(wire.AppendString(nil, c.Name), c.Attributes)}
}

func decodeCreateNamespace(body []byte) (c CreateNamespace, err error) {
	r := wire.NewReader(body)
	c = CreateNamespace{r.String(), readConfigs(&r)}
	return c, r.Close()
}

func (s *State) createNamespace(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeCreateNamespace(body)
	switch {
	case err != nil:
		return invalid("create namespace", err)
	case cmd.Name == "" || len(cmd.Name) > maxNamespaceName:
		return refused(core.Invalid, "create namespace: a name of %d bytes, want 1 to %d", len(cmd.Name), maxNamespaceName)
	case s.routing.deleting[cmd.Name]:
		return refused(core.Conflict, "namespace %q is being deleted", cmd.Name)
	}
	created := []byte{0}
	v := s.routing.vhosts[cmd.Name]
	switch {
	case v == nil:
		created[0] = 1
		s.routing.addVhost(&Namespace{Name: cmd.Name, Created: c.time, Attributes: cmd.Attributes})
		v = s.routing.vhosts[cmd.Name]
	case maps.Equal(v.Attributes, cmd.Attributes):
		return core.Result{Body: created}
	default:
		changed := *v.Namespace
		changed.Attributes = cmd.Attributes
		v.Namespace = &changed
	}
	tx.Set(namespaceKey(cmd.Name), v.encode())
	return core.Result{Body: created}
}

// DeleteNamespace deletes a namespace with all that is in it. It is gone at once; what was
// in it is removed by Sweep, and until then there can be no other one of its name.
type DeleteNamespace struct{ Name string }

// Command encodes: name.
func (c *DeleteNamespace) Command() core.Command {
	return core.Command{Code: CodeDeleteNamespace, Head: wire.AppendString(nil, c.Name)}
}

func decodeDeleteNamespace(body []byte) (c DeleteNamespace, err error) {
	r := wire.NewReader(body)
	c.Name = r.String()
	return c, r.Close()
}

func (s *State) deleteNamespace(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteNamespace(body)
	if err != nil {
		return invalid("delete namespace", err)
	}
	v := s.routing.vhosts[cmd.Name]
	switch {
	case cmd.Name == core.DefaultNamespace:
		return refused(core.Denied, "the default namespace cannot be deleted")
	case v == nil:
		return core.Result{Err: noNamespace(cmd.Name)}
	}
	gone := *v.Namespace
	gone.Deleted = true
	tx.Set(namespaceKey(cmd.Name), gone.encode())
	delete(s.routing.vhosts, cmd.Name)
	s.routing.deleting[cmd.Name] = true
	return core.Result{}
}

// sweepNamespace removes a piece of what was in a deleted namespace. It returns the work that
// is left to do in this command.
func (s *State) sweepNamespace(tx txn, work int) (int, error) {
	name := slices.Min(slices.Collect(maps.Keys(s.routing.deleting)))
	names, err := ReadQueueNames(tx, name, "", work, nil)
	if err != nil {
		return 0, err
	}
	for _, q := range names {
		if err := s.removeQueueNamed(tx, core.Name{Namespace: name, Name: q}); err != nil {
			return 0, err
		}
	}
	if work -= len(names); work <= 0 {
		return 0, nil
	}
	exchanges, err := readExchanges(tx, name, "", work)
	if err != nil {
		return 0, err
	}
	for _, x := range exchanges {
		s.removeExchange(tx, s.routing.exchanges[x.ID])
	}
	if work -= len(exchanges); work <= 0 {
		return 0, nil
	}
	for _, n := range slices.SortedFunc(maps.Keys(s.all.byName), compareNames) {
		if n.Namespace != name {
			continue
		}
		if work <= 0 {
			return 0, nil
		}
		t := s.all.byName[n]
		work -= len(t.Queues)
		s.removeTopic(tx, t)
	}
	subscriptions, err := ReadSubscriptions(tx, name, "", max(work, 1))
	if err != nil {
		return 0, err
	}
	for _, sub := range subscriptions { // their groups go with what they were on
		tx.Delete(subscriptionKey(sub.Name))
		tx.Delete(endpointKey(sub.Name))
		s.subChanges.note(sub.Name)
	}
	if work -= len(subscriptions); work <= 0 {
		return 0, nil
	}
	for _, sweep := range [...]func(txn, string, int) (int, error){s.sweepHooksOf, s.sweepMQTTOf, s.sweepRetainedOf, s.sweepRightsOf} {
		n, err := sweep(tx, name, work)
		if err != nil {
			return 0, err
		}
		if work -= n; work <= 0 {
			return 0, nil
		}
	}
	s.removePoliciesOf(tx, name)
	tx.Delete(namespaceKey(name))
	delete(s.routing.deleting, name)
	return work - 1, nil
}

func (s *State) removeQueueNamed(tx txn, n core.Name) error {
	q, err := ReadQueue(tx, n)
	if err != nil || q == nil {
		return err
	}
	a, err := s.ackGroups(tx, q.ID)
	if err != nil || a == nil {
		return err
	}
	return s.removeQueue(tx, a)
}

func compareNames(a, b core.Name) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func noNamespace(name string) *core.Error {
	return core.E(core.NotFound, "namespace %q does not exist", name)
}
