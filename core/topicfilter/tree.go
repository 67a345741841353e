package topicfilter

import (
	"slices"
	"strings"
)

// Tree finds the values whose filters match a name. The zero value is empty. It is not safe
// for concurrent use; any number may Match at a time.
//
// It is a radix tree over levels: a node is there only where filters part or end, so that a
// filter which shares its last levels with no other costs one small node, whatever its length.
type Tree[V comparable] struct {
	root branches[V]
	size int
}

// node is what filters share behind the place where they part from others.
type node[V comparable] struct {
	label string // one level or more of the filters, wildcards too
	value V      // where has
	below *branches[V]
	has   bool // a filter ends here
	plain bool // label has no wildcards
}

// branches are the places where filters part: none of their labels begin with the same level.
type branches[V comparable] struct {
	few    []*node[V]          // in no order, or
	many   map[string]*node[V] // by their first level, where they are more than maxFew
	plus   *node[V]            // begins with +
	all    *node[V]            // is #
	values []V                 // of the filter that ends here, beside the node's own
}

// maxFew bounds what is looked at one by one: a map is larger, and has to be worth it.
const maxFew = 8

// Len is the number of pairs of a filter and a value.
func (t *Tree[V]) Len() int { return t.size }

// HasFirst reports whether a filter's first level matches one.
func (t *Tree[V]) HasFirst(level string) bool {
	return t.root.get(level) != nil || t.root.plus != nil || t.root.all != nil
}

// firstLevel is the one that a label begins with.
func firstLevel(label string) string {
	level, _, _ := Cut(label)
	return level
}

// begins reports whether a level is a label's first one.
func begins(level, label string) bool {
	return strings.HasPrefix(label, level) && (len(label) == len(level) || label[len(level)] == '/')
}

// find is where among few the node is that a level begins; -1 when there is none.
func (b *branches[V]) find(level string) int {
	for i, n := range b.few {
		if begins(level, n.label) {
			return i
		}
	}
	return -1
}

// get is the node that a level other than a wildcard begins; nil when there is none.
func (b *branches[V]) get(level string) *node[V] {
	if b.many != nil {
		return b.many[level]
	}
	if i := b.find(level); i >= 0 {
		return b.few[i]
	}
	return nil
}

// of is the node that any level begins; nil when there is none.
func (b *branches[V]) of(level string) *node[V] {
	switch level {
	case "#":
		return b.all
	case "+":
		return b.plus
	}
	return b.get(level)
}

// set puts a node where its label belongs, in place of one that begins with the same level.
func (b *branches[V]) set(n *node[V]) {
	level := firstLevel(n.label)
	switch {
	case level == "#":
		b.all = n
		return
	case level == "+":
		b.plus = n
		return
	case b.many != nil:
		b.many[level] = n // the key becomes this label's, too
		return
	}
	if i := b.find(level); i >= 0 {
		b.few[i] = n
		return
	}
	if len(b.few) < maxFew {
		b.few = append(b.few, n)
		return
	}
	b.many = make(map[string]*node[V], maxFew+1)
	for _, o := range append(b.few, n) {
		b.many[firstLevel(o.label)] = o
	}
	b.few = nil
}

// cut takes the node away that a level begins; there is one.
func (b *branches[V]) cut(level string) {
	switch {
	case level == "#":
		b.all = nil
	case level == "+":
		b.plus = nil
	case b.many == nil:
		i := b.find(level)
		b.few = slices.Delete(b.few, i, i+1)
	default:
		delete(b.many, level)
		if len(b.many) > maxFew/2 {
			return
		}
		for _, n := range b.many {
			b.few = append(b.few, n)
		}
		b.many = nil
	}
}

// only is the one node there is; nil when there are none or several.
func (b *branches[V]) only() (one *node[V]) {
	n := len(b.few) + len(b.many)
	if n == 1 && b.many == nil {
		one = b.few[0]
	}
	for _, w := range [...]*node[V]{b.plus, b.all} {
		if w != nil {
			one = w
			n++
		}
	}
	if n != 1 {
		return nil
	}
	return one
}

func (b *branches[V]) empty() bool {
	return len(b.few)+len(b.many)+len(b.values) == 0 && b.plus == nil && b.all == nil
}

func newNode[V comparable](label string) *node[V] {
	n := new(node[V])
	n.rename(label)
	return n
}

// rename gives a node a copy of its label, so that no longer one is kept for it.
func (n *node[V]) rename(label string) {
	n.label = strings.Clone(label)
	n.plain = label[0:min(1, len(label))] != "+" && !strings.Contains(label, "/+") && !hasHash(label)
}

func hasHash(label string) bool { return label == "#" || strings.HasSuffix(label, "/#") }

// shared is how many bytes of a label a filter begins with, in whole levels.
func shared(label, filter string) int {
	end := 0
	for i := 0; ; i++ {
		endL, endF := i == len(label) || label[i] == '/', i == len(filter) || filter[i] == '/'
		if endL != endF || !endL && label[i] != filter[i] {
			return end
		}
		if endL {
			if end = i; i == len(label) || i == len(filter) {
				return end
			}
		}
	}
}

// Add adds a value under a legal filter, beside those that it has.
func (t *Tree[V]) Add(filter string, v V) {
	t.size++
	b := &t.root
	for {
		n := b.of(firstLevel(filter))
		if n == nil {
			n = newNode[V](filter)
			n.add(v)
			b.set(n)
			return
		}
		k := shared(n.label, filter)
		if k < len(n.label) { // they part here
			up := newNode[V](n.label[:k])
			up.below = new(branches[V])
			b.set(up)
			n.rename(n.label[k+1:])
			up.below.set(n)
			n = up
		}
		if k == len(filter) {
			n.add(v)
			return
		}
		if n.below == nil {
			n.below = new(branches[V])
		}
		b, filter = n.below, filter[k+1:]
	}
}

func (n *node[V]) add(v V) {
	if !n.has {
		n.value, n.has = v, true
		return
	}
	if n.below == nil {
		n.below = new(branches[V])
	}
	n.below.values = append(n.below.values, v)
}

// Remove removes a value from under a filter, once, and reports whether it was there.
func (t *Tree[V]) Remove(filter string, v V) bool {
	removed := t.root.remove(filter, v)
	if removed {
		t.size--
	}
	return removed
}

func (b *branches[V]) remove(filter string, v V) bool {
	level := firstLevel(filter)
	n := b.of(level)
	if n == nil {
		return false
	}
	switch k := shared(n.label, filter); {
	case k < len(n.label):
		return false
	case k == len(filter):
		if !n.remove(v) {
			return false
		}
	case n.below == nil || !n.below.remove(filter[k+1:], v):
		return false
	}
	if n.below != nil && n.below.empty() {
		n.below = nil
	}
	switch {
	case n.has:
	case n.below == nil:
		b.cut(level)
	default: // what is left does not part here any more
		if one := n.below.only(); one != nil {
			one.rename(n.label + "/" + one.label)
			b.set(one)
		}
	}
	return true
}

func (n *node[V]) remove(v V) bool {
	var more []V
	if n.below != nil {
		more = n.below.values
	}
	last := len(more) - 1
	switch i := slices.Index(more, v); {
	case n.has && n.value == v && last < 0:
		var none V
		n.value, n.has = none, false
		return true
	case n.has && n.value == v:
		n.value = more[last]
	case i < 0:
		return false
	default:
		more[i] = more[last]
	}
	clear(more[last:])
	if n.below.values = more[:last]; last == 0 {
		n.below.values = nil
	}
	return true
}

// Match calls fn with the value of each filter that matches a legal name.
func (t *Tree[V]) Match(name string, fn func(V)) {
	// Wildcards do not match a first level that begins with $ (section 4.7.2).
	if name[0] != '$' {
		t.root.match(name, fn)
	} else if n := t.root.get(firstLevel(name)); n != nil {
		n.match(name, fn)
	}
}

// match matches what is left of a name, one level or more.
func (b *branches[V]) match(rest string, fn func(V)) {
	if n := b.get(firstLevel(rest)); n != nil {
		n.match(rest, fn)
	}
	if b.plus != nil {
		b.plus.match(rest, fn)
	}
	if b.all != nil {
		b.all.each(fn)
	}
}

// match matches what is left of a name against the label, and what is left then against what is
// below.
func (n *node[V]) match(rest string, fn func(V)) {
	more := false
	if n.plain {
		if !strings.HasPrefix(rest, n.label) {
			return
		}
		if rest = rest[len(n.label):]; rest != "" {
			if rest[0] != '/' {
				return
			}
			rest, more = rest[1:], true
		}
	} else {
		var ok bool
		if rest, more, ok = matchLabel(n.label, rest); !ok {
			return
		}
	}
	switch {
	case !more:
		n.each(fn)
		if n.below != nil && n.below.all != nil {
			n.below.all.each(fn) // "a/#" matches "a"
		}
	case !n.plain && hasHash(n.label):
		n.each(fn)
	case n.below != nil:
		n.below.match(rest, fn)
	}
}

// matchLabel matches a label that has wildcards. With ok it says what of the name is left behind
// it, if more is; # leaves what it matches.
func matchLabel(label, name string) (rest string, more, ok bool) {
	rest, more = name, true
	for again := true; again; {
		var l, level string
		l, label, again = Cut(label)
		if l == "#" {
			return rest, more, true
		}
		if !more {
			return "", false, false
		}
		level, rest, more = Cut(rest)
		if l != "+" && l != level {
			return "", false, false
		}
	}
	return rest, more, true
}

// each calls fn with the values of the filter that ends here.
func (n *node[V]) each(fn func(V)) {
	if !n.has {
		return
	}
	fn(n.value)
	if n.below != nil {
		for _, v := range n.below.values {
			fn(v)
		}
	}
}
