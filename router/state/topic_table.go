package state

import "bytes"

// topicTable sends to the bindings whose patterns match the message's key: words between
// dots, of which "*" is any one and "#" any number.
//
// The patterns are a trie. A key is taken word by word, with the set of nodes that the words
// so far can have led to, so that what it takes is bounded by its words and the nodes,
// whatever the patterns are: trying one way after the other takes exponential time where
// there are many "#".
type topicTable struct {
	root      topicNode
	step      uint64 // counts steps of all matches
	now, next []*topicNode
}

type topicNode struct {
	words   map[string]*topicNode
	one     *topicNode // by "*"
	any     *topicNode // by "#"
	loops   bool       // it is one of "#": words lead from it to itself
	targets targets
	seen    uint64 // the last step that led to it
}

// cutWord takes a word off the front of a key that is not at its end; more says whether
// another follows. The empty key has no words.
func cutWord(key []byte) (word, rest []byte, more bool) { return bytes.Cut(key, []byte{'.'}) }

// child is where a word of a pattern leads.
func (n *topicNode) child(word []byte) *topicNode {
	switch string(word) {
	case "*":
		return n.one
	case "#":
		return n.any
	}
	return n.words[string(word)]
}

func (n *topicNode) setChild(word []byte, c *topicNode) {
	switch string(word) {
	case "*":
		n.one = c
	case "#":
		n.any = c
	default:
		if n.words == nil {
			n.words = map[string]*topicNode{}
		}
		if c == nil {
			delete(n.words, string(word))
		} else {
			n.words[string(word)] = c
		}
	}
}

func (n *topicNode) empty() bool {
	return len(n.words) == 0 && n.one == nil && n.any == nil && len(n.targets) == 0
}

func (t *topicTable) add(l *link) {
	n := &t.root
	for rest, more := []byte(l.key), l.key != ""; more; {
		var word []byte
		word, rest, more = cutWord(rest)
		c := n.child(word)
		if c == nil {
			c = &topicNode{loops: string(word) == "#"}
			n.setChild(word, c)
		}
		n = c
	}
	n.targets.add(l.to)
}

func (t *topicTable) remove(l *link) { t.root.remove([]byte(l.key), l.key != "", l.to) }

// remove removes a target below n, and the nodes that nothing is left of.
func (n *topicNode) remove(key []byte, more bool, to *destination) {
	if !more {
		n.targets.remove(to)
		return
	}
	word, rest, more := cutWord(key)
	c := n.child(word)
	if c == nil {
		return
	}
	if c.remove(rest, more, to); c.empty() {
		n.setChild(word, nil)
	}
}

func (t *topicTable) match(p *passage, m *matching) {
	for _, key := range p.keys {
		t.step++
		t.now = t.enter(t.now[:0], &t.root)
		for more := len(key) > 0; more && len(t.now) > 0; {
			var word []byte
			word, key, more = cutWord(key)
			t.step++
			t.next = t.next[:0]
			for _, n := range t.now {
				if n.loops {
					t.next = t.enter(t.next, n)
				}
				if n.one != nil {
					t.next = t.enter(t.next, n.one)
				}
				if c := n.words[string(word)]; c != nil {
					t.next = t.enter(t.next, c)
				}
			}
			t.now, t.next = t.next, t.now
		}
		for _, n := range t.now {
			n.targets.reach(m)
		}
	}
}

// enter adds a node to those that the step led to, and what "#" makes of no words.
func (t *topicTable) enter(ns []*topicNode, n *topicNode) []*topicNode {
	for ; n != nil && n.seen != t.step; n = n.any {
		n.seen = t.step
		ns = append(ns, n)
	}
	return ns
}
