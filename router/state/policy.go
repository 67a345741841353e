package state

import (
	"cmp"
	"maps"
	"regexp"
	"slices"

	"polylog/core"
	"polylog/core/message"
	"polylog/core/wire"
)

// A policy lays limits over the queues, and settings over the exchanges, whose names match its
// pattern. Of those that match, the one of the highest priority counts, and beside it one
// operator policy: RabbitMQ's rules.

// PolicyTarget says what a policy applies to.
type PolicyTarget uint8

// The targets.
const (
	ToAll PolicyTarget = iota
	ToQueues
	ToExchanges
	ToClassicQueues
	ToQuorumQueues
	ToStreams
	policyTargets
)

// Policy is a policy of a namespace.
type Policy struct {
	Namespace, Name string
	Operator        bool // laid over the users' policies; names are its own
	Pattern         string
	Definition      message.Table // RabbitMQ's keys: max-length, message-ttl, …
	Priority        int
	ApplyTo         PolicyTarget

	match  *regexp.Regexp
	broken error       // why Pattern does not compile here
	limits QueueLimits // what Definition says to queues
}

// Limits of policies. All of them are in memory.
const (
	maxPolicies      = 1 << 12 // of all namespaces
	maxPolicyPattern = 1 << 10 // bytes
)

// Check refuses, before it is proposed, a policy that makes no sense, or whose pattern does not compile. The
// error is of kind Invalid.
func (p *Policy) Check() error {
	if err := p.prepare(); err != nil {
		return err
	}
	if p.broken != nil {
		return core.E(core.Invalid, "policy %q: pattern %q: %v", p.Name, p.Pattern, p.broken)
	}
	return nil
}

// prepare makes of the policy what is looked at. Its error, of kind Invalid, says what is wrong with it,
// on every node: that the pattern does not compile is not among it.
func (p *Policy) prepare() error {
	switch {
	case p.Namespace == "" || p.Name == "":
		return core.E(core.Invalid, "policy without namespace or name")
	case len(p.Pattern) > maxPolicyPattern:
		return core.E(core.Invalid, "policy %q: pattern of %d bytes, at most %d are allowed", p.Name, len(p.Pattern), maxPolicyPattern)
	case p.ApplyTo >= policyTargets:
		return core.E(core.Invalid, "policy %q: target %d", p.Name, p.ApplyTo)
	case len(p.Definition) == 0:
		return core.E(core.Invalid, "policy %q: the definition is empty", p.Name)
	}
	p.match, p.broken = compilePattern(p.Pattern)
	var err error
	if p.limits, err = ParseLimits(p.Definition); err != nil {
		return core.E(core.Invalid, "policy %q: %v", p.Name, err)
	}
	return nil
}

// complainOfPolicy says that a policy's pattern does not compile here, if that is so.
func (s *State) complainOfPolicy(p *Policy) {
	if p.broken != nil {
		s.complainOf("policy "+p.Name+" of namespace "+p.Namespace, p.Pattern, p.broken)
	}
}

// policyKeys are the keys of definitions that say something to queues or exchanges. A key that is not here
// is somebody else's, or has no meaning in this broker.
var policyKeys = map[string]func(*QueueLimits, message.Value) string{
	"message-ttl":      setNumber(0, func(l *QueueLimits, n int64) { l.HasTTL, l.TTL = true, n }),
	"expires":          setNumber(1, func(l *QueueLimits, n int64) { l.Expires = n }),
	"max-length":       setNumber(0, func(l *QueueLimits, n int64) { l.HasMaxLength, l.MaxLength = true, n }),
	"max-length-bytes": setNumber(0, func(l *QueueLimits, n int64) { l.HasMaxBytes, l.MaxBytes = true, n }),
	"delivery-limit":   setNumber(-1, func(l *QueueLimits, n int64) { l.DeliveryLimit = int(min(n, maxDeliveryLimit)) }),
	"overflow": func(l *QueueLimits, v message.Value) string {
		o, ok := map[string]Overflow{"drop-head": DropHead, "reject-publish": RejectPublish, "reject-publish-dlx": RejectPublishDLX}[v.Str()]
		if l.Overflow = o; !ok {
			return "not drop-head, reject-publish or reject-publish-dlx"
		}
		return ""
	},
	"dead-letter-exchange": func(l *QueueLimits, v message.Value) string {
		l.HasDeadLetter, l.DeadLetterExchange = true, v.Str()
		return wantText(v)
	},
	"dead-letter-routing-key": func(l *QueueLimits, v message.Value) string {
		l.HasDeadLetterKey, l.DeadLetterKey = true, v.Str()
		return wantText(v)
	},
	ArgAlternate: func(_ *QueueLimits, v message.Value) string { return wantText(v) },
}

func setNumber(least int64, set func(*QueueLimits, int64)) func(*QueueLimits, message.Value) string {
	return func(l *QueueLimits, v message.Value) string {
		n, ok := v.Int()
		if !ok || v.Kind() == message.KindTime {
			return "not an integer"
		}
		if n < least {
			return "too small"
		}
		set(l, min(n, maxDuration))
		return ""
	}
}

func wantText(v message.Value) string {
	if v.IsText() {
		return ""
	}
	return "not a string"
}

// ParseLimits reads the limits of a policy's definition. The error is of kind Invalid.
func ParseLimits(definition message.Table) (l QueueLimits, err error) {
	for _, h := range definition {
		set := policyKeys[h.Name]
		if set == nil {
			continue
		}
		if wrong := set(&l, h.Value); wrong != "" {
			return l, core.E(core.Invalid, "%s is %q, %s", h.Name, h.Value.String(), wrong)
		}
	}
	return l, nil
}

// policySet is all policies; immutable.
type policySet struct {
	all map[policyKey]*Policy
	// byNamespace are the same, each list by priority, the highest first, and by name.
	byNamespace map[string][2][]*Policy // users', operators'
}

type policyKey struct {
	namespace string
	operator  bool
	name      string
}

func (p *Policy) key() policyKey { return policyKey{p.Namespace, p.Operator, p.Name} }

func newPolicySet(all map[policyKey]*Policy) *policySet {
	s := &policySet{all, map[string][2][]*Policy{}}
	for _, p := range all {
		lists := s.byNamespace[p.Namespace]
		kind := 0
		if p.Operator {
			kind = 1
		}
		lists[kind] = append(lists[kind], p)
		s.byNamespace[p.Namespace] = lists
	}
	for _, lists := range s.byNamespace {
		for _, ps := range lists {
			slices.SortFunc(ps, func(a, b *Policy) int {
				return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
			})
		}
	}
	return s
}

// with is the set with one policy more, or another one of that name.
func (s *policySet) with(p *Policy) *policySet {
	all := maps.Clone(s.all)
	all[p.key()] = p
	return newPolicySet(all)
}

func (s *policySet) without(k policyKey) *policySet {
	all := maps.Clone(s.all)
	delete(all, k)
	return newPolicySet(all)
}

// of are the policies that apply to a queue: at most one of the users' and one of the
// operators', in this order.
func (s *policySet) of(q *Queue) (found []*Policy) {
	lists := s.byNamespace[q.Name.Namespace]
	for _, ps := range lists {
		if p := firstMatch(ps, q.Name.Name, func(t PolicyTarget) bool { return t.appliesTo(q.Kind) }); p != nil {
			found = append(found, p)
		}
	}
	return found
}

// PolicyOfExchange is the users' policy that applies to an exchange; nil when none does.
func (s *State) PolicyOfExchange(n core.Name) *Policy { return s.policyView.Load().ofExchange(n) }

func (s *policySet) ofExchange(n core.Name) *Policy {
	return firstMatch(s.byNamespace[n.Namespace][0], n.Name, func(t PolicyTarget) bool { return t == ToAll || t == ToExchanges })
}

func firstMatch(ps []*Policy, name string, applies func(PolicyTarget) bool) *Policy {
	for _, p := range ps {
		if applies(p.ApplyTo) && p.match.MatchString(name) {
			return p
		}
	}
	return nil
}

func (t PolicyTarget) appliesTo(k QueueKind) bool {
	switch t {
	case ToAll, ToQueues:
		return true
	case ToClassicQueues:
		return k == Classic
	case ToQuorumQueues:
		return k == Quorum
	case ToStreams:
		return k == Stream
	case ToExchanges, policyTargets:
	}
	return false
}

func policyKVKey(k policyKey) []byte {
	return append(wire.AppendBool(wire.AppendString([]byte{prefixPolicy}, k.namespace), k.operator), k.name...)
}

// appendTo encodes: pattern, priority varint, target byte, definition.
func (p *Policy) appendTo(dst []byte) []byte {
	dst = wire.AppendVarint(wire.AppendString(dst, p.Pattern), int64(p.Priority))
	return message.AppendTable(append(dst, byte(p.ApplyTo)), p.Definition)
}

func (p *Policy) read(r *wire.Reader) {
	p.Pattern, p.Priority = r.String(), int(int32(r.Varint()))
	p.ApplyTo, p.Definition = PolicyTarget(r.Byte()), message.ReadTable(r)
}

// SetPolicy creates or replaces a policy. It holds for what is there as well as for what
// comes.
type SetPolicy struct{ Policy Policy }

// Command encodes: namespace, operator byte, name, pattern, priority varint, target byte,
// definition.
func (c *SetPolicy) Command() core.Command {
	b := appendPolicyKey(nil, c.Policy.key())
	return core.Command{Code: CodeSetPolicy, Head: c.Policy.appendTo(b)}
}

func appendPolicyKey(b []byte, k policyKey) []byte {
	return wire.AppendString(wire.AppendBool(wire.AppendString(b, k.namespace), k.operator), k.name)
}

func readPolicyKey(r *wire.Reader) policyKey {
	return policyKey{namespace: r.String(), operator: r.Bool(), name: r.String()}
}

func decodeSetPolicy(body []byte) (c SetPolicy, err error) {
	r := wire.NewReader(body)
	k := readPolicyKey(&r)
	c.Policy = Policy{Namespace: k.namespace, Operator: k.operator, Name: k.name}
	c.Policy.read(&r)
	return c, r.Close()
}

func (s *State) setPolicy(tx txn, body []byte) core.Result {
	cmd, err := decodeSetPolicy(body)
	if err != nil {
		return invalid("set policy", err)
	}
	p := &cmd.Policy
	if s.routing.vhosts[p.Namespace] == nil {
		return core.Result{Err: noNamespace(p.Namespace)}
	}
	if err := p.prepare(); err != nil {
		return refused(core.KindOf(err), "%v", err)
	}
	if s.policies.all[p.key()] == nil && len(s.policies.all) >= maxPolicies {
		return refused(core.Limit, "there are %d policies already", len(s.policies.all))
	}
	s.complainOfPolicy(p)
	tx.Set(policyKVKey(p.key()), p.appendTo([]byte{valueVersion}))
	return s.changePolicies(s.policies.with(p))
}

// DeletePolicy deletes a policy.
type DeletePolicy struct {
	Namespace string
	Operator  bool
	Name      string
}

// Command encodes: namespace, operator byte, name.
func (c *DeletePolicy) Command() core.Command {
	return core.Command{Code: CodeDeletePolicy, Head: appendPolicyKey(nil, policyKey{c.Namespace, c.Operator, c.Name})}
}

func decodeDeletePolicy(body []byte) (c DeletePolicy, err error) {
	r := wire.NewReader(body)
	k := readPolicyKey(&r)
	return DeletePolicy{k.namespace, k.operator, k.name}, r.Close()
}

func (s *State) deletePolicy(tx txn, body []byte) core.Result {
	cmd, err := decodeDeletePolicy(body)
	if err != nil {
		return invalid("delete policy", err)
	}
	k := policyKey{cmd.Namespace, cmd.Operator, cmd.Name}
	if s.policies.all[k] == nil {
		return refused(core.NotFound, "namespace %s has no policy %q", cmd.Namespace, cmd.Name)
	}
	tx.Delete(policyKVKey(k))
	return s.changePolicies(s.policies.without(k))
}

// removePoliciesOf removes the policies of a namespace that goes.
func (s *State) removePoliciesOf(tx txn, namespace string) {
	left := maps.Clone(s.policies.all)
	maps.DeleteFunc(left, func(k policyKey, _ *Policy) bool {
		if k.namespace != namespace {
			return false
		}
		tx.Delete(policyKVKey(k))
		return true
	})
	if len(left) < len(s.policies.all) {
		s.changePolicies(newPolicySet(left))
	}
}

// changePolicies makes other policies those that hold.
func (s *State) changePolicies(is *policySet) core.Result {
	s.policies, s.queuesChanged = is, true
	return core.Result{}
}

func (s *State) loadPolicies() error {
	prefix := []byte{prefixPolicy}
	all := map[policyKey]*Policy{}
	var bad error
	err := s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		p := new(Policy)
		kr, vr := wire.NewReader(k[1:]), wire.NewReader(v)
		p.Namespace, p.Operator = kr.String(), kr.Bool()
		p.Name = string(kr.Rest())
		if bad = checkVersion(&vr, "policy"); bad != nil {
			return false
		}
		p.read(&vr)
		if bad = cmp.Or(kr.Err(), vr.Close()); bad == nil {
			bad = p.prepare()
		}
		if bad != nil {
			bad = core.E(core.Corrupt, "policy %x: %v", k, bad)
			return false
		}
		s.complainOfPolicy(p)
		all[p.key()] = p
		return true
	})
	s.policies = newPolicySet(all)
	return cmp.Or(err, bad)
}

// Policies are the policies of a namespace, the users' or the operators', as of the last
// applied batch; of the highest priority first. They are not to be changed.
func (s *State) Policies(namespace string, operator bool) []*Policy {
	kind := 0
	if operator {
		kind = 1
	}
	return s.policyView.Load().byNamespace[namespace][kind]
}

// PoliciesOf are the policies that apply to a queue: at most one of the users' and one of the
// operators', in this order.
func (s *State) PoliciesOf(q *Queue) []*Policy { return s.policyView.Load().of(q) }
