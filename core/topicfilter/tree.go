package topicfilter

import "slices"

// Tree finds the values whose filters match a name. The zero value is empty. It is not safe
// for concurrent use; any number may Match at a time.
type Tree[V comparable] struct {
	root node[V]
	size int
}

// node is a prefix of filters' levels.
type node[V comparable] struct {
	children map[string]*node[V]
	plus     *node[V]
	values   []V // of the filter that ends here
	all      []V // of the filter that ends here with one more level, #
}

// Len is the number of pairs of a filter and a value.
func (t *Tree[V]) Len() int { return t.size }

// HasFirst reports whether a filter's first level matches one.
func (t *Tree[V]) HasFirst(level string) bool {
	return t.root.children[level] != nil || t.root.plus != nil || len(t.root.all) > 0
}

// Add adds a value under a legal filter, beside those that it has.
func (t *Tree[V]) Add(filter string, v V) {
	n := &t.root
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = Cut(rest)
		switch level {
		case "#":
			n.all = append(n.all, v)
			t.size++
			return
		case "+":
			if n.plus == nil {
				n.plus = new(node[V])
			}
			n = n.plus
		default:
			c := n.children[level]
			if c == nil {
				c = new(node[V])
				if n.children == nil {
					n.children = map[string]*node[V]{}
				}
				n.children[level] = c
			}
			n = c
		}
	}
	n.values = append(n.values, v)
	t.size++
}

// Remove removes a value from under a filter, once, and reports whether it was there.
func (t *Tree[V]) Remove(filter string, v V) bool {
	removed := t.root.remove(filter, true, v)
	if removed {
		t.size--
	}
	return removed
}

func (n *node[V]) remove(rest string, more bool, v V) bool {
	if !more {
		return cutValue(&n.values, v)
	}
	level, rest, more := Cut(rest)
	switch level {
	case "#":
		return cutValue(&n.all, v)
	case "+":
		if n.plus == nil || !n.plus.remove(rest, more, v) {
			return false
		}
		if n.plus.empty() {
			n.plus = nil
		}
	default:
		c := n.children[level]
		if c == nil || !c.remove(rest, more, v) {
			return false
		}
		if c.empty() {
			delete(n.children, level)
		}
	}
	return true
}

func cutValue[V comparable](vs *[]V, v V) bool {
	i := slices.Index(*vs, v)
	if i < 0 {
		return false
	}
	last := len(*vs) - 1
	(*vs)[i] = (*vs)[last]
	clear((*vs)[last:])
	*vs = (*vs)[:last]
	if last == 0 {
		*vs = nil
	}
	return true
}

func (n *node[V]) empty() bool {
	return len(n.children) == 0 && n.plus == nil && len(n.values) == 0 && len(n.all) == 0
}

// Match calls fn with the value of each filter that matches a legal name.
func (t *Tree[V]) Match(name string, fn func(V)) {
	// Wildcards do not match a first level that begins with $ (section 4.7.2).
	dollar := name[0] == '$'
	if !dollar {
		each(t.root.all, fn)
	}
	level, rest, more := Cut(name)
	t.root.children[level].match(rest, more, fn)
	if !dollar {
		t.root.plus.match(rest, more, fn)
	}
}

func (n *node[V]) match(rest string, more bool, fn func(V)) {
	if n == nil {
		return
	}
	each(n.all, fn)
	if !more {
		each(n.values, fn)
		return
	}
	level, rest, more := Cut(rest)
	n.children[level].match(rest, more, fn)
	n.plus.match(rest, more, fn)
}

func each[V any](vs []V, fn func(V)) {
	for _, v := range vs {
		fn(v)
	}
}
