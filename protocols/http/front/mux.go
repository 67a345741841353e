package front

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Mux finds the handler of a path. It looks at the path as the client sent it, takes that
// apart at its slashes, and decodes each part once: what a handler is given is what it was
// chosen by. Paths that mean one thing to one reader and another to the next (dots, empty
// parts, bad escapes, zero bytes) are refused before.
//
// A pattern's parts are words, or parameters in braces; the last one may have a verb behind
// it: /v1/queues/{queue}:purge. The verb is found in the undecoded path, so a name may have
// a colon, written %3A.
type Mux[H any] struct{ root node[H] }

type node[H any] struct {
	words   map[string]*node[H]
	param   *node[H]
	name    string       // of the parameter that leads here
	methods map[string]H // by method
	verbs   map[string]*node[H]
}

// Params are the decoded parameters of a path.
type Params []struct{ Name, Value string }

// Get is a parameter by its name; empty where there is none.
func (p Params) Get(name string) string {
	for _, one := range p {
		if one.Name == name {
			return one.Value
		}
	}
	return ""
}

// Handle adds a handler. Patterns are ours: one that is there already is overwritten.
func (m *Mux[H]) Handle(method, pattern string, h H) {
	n := &m.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pattern, "/"), "/") {
		word, verb, _ := strings.Cut(part, ":")
		if name, ok := strings.CutPrefix(word, "{"); ok {
			if n.param == nil {
				n.param = &node[H]{name: strings.TrimSuffix(name, "}")}
			}
			n = n.param
		} else {
			n = child(&n.words, word)
		}
		if verb != "" {
			n = child(&n.verbs, verb)
		}
	}
	if n.methods == nil {
		n.methods = map[string]H{}
	}
	n.methods[method] = h
}

func child[H any](m *map[string]*node[H], key string) *node[H] {
	if *m == nil {
		*m = map[string]*node[H]{}
	}
	n := (*m)[key]
	if n == nil {
		n = &node[H]{}
		(*m)[key] = n
	}
	return n
}

// Find is the handlers, by method, of a path as it was sent. Nothing of path is kept.
func (m *Mux[H]) Find(path string) (methods map[string]H, ps Params, err error) {
	if path == "" || path[0] != '/' {
		return nil, nil, &Problem{Status: 400, Code: "bad_path", Detail: "the path does not begin with a slash"}
	}
	n := &m.root
	rest, more := path[1:], true
	for more {
		var raw, verb string
		raw, rest, more = strings.Cut(rest, "/")
		if !more {
			verb = n.verbOf(raw)
		}
		part, err := DecodePart(strings.TrimSuffix(raw, verb))
		if err != nil {
			return nil, nil, err
		}
		if n = n.next(raw); n == nil {
			n = &node[H]{} // not found, unless the path turns out to be a bad one
		}
		if n.name != "" {
			ps = append(ps, struct{ Name, Value string }{n.name, part})
		}
		if verb != "" {
			n = n.verbs[verb[1:]]
		}
	}
	if n.methods == nil {
		return nil, nil, &Problem{Status: 404, Code: "no_such_path", Detail: "there is nothing at this path"}
	}
	return n.methods, ps, nil
}

// next is where an undecoded part leads; nil: nowhere.
func (n *node[H]) next(raw string) *node[H] {
	if w := n.words[raw]; w != nil {
		return w
	}
	return n.param
}

// verbOf is the verb at the end of an undecoded last part, with its colon, where the
// parameter that the part is has that verb.
func (n *node[H]) verbOf(raw string) string {
	i := strings.LastIndexByte(raw, ':')
	if i < 0 || n.words[raw] != nil || n.param == nil || n.param.verbs[raw[i+1:]] == nil {
		return ""
	}
	return raw[i:]
}

// DecodePart undoes the percent-encoding of a path's part.
func DecodePart(raw string) (string, error) {
	bad := func(why string) (string, error) {
		return "", &Problem{Status: 400, Code: "bad_path", Detail: "a part of the path " + why}
	}
	part := raw
	if strings.IndexByte(raw, '%') >= 0 {
		b := make([]byte, 0, len(raw))
		for i := 0; i < len(raw); i++ {
			if raw[i] != '%' {
				b = append(b, raw[i])
				continue
			}
			if i+2 >= len(raw) || HexDigit(raw[i+1]) < 0 || HexDigit(raw[i+2]) < 0 {
				return bad("has a percent sign that two hexadecimal digits do not follow")
			}
			b = append(b, byte(HexDigit(raw[i+1])<<4|HexDigit(raw[i+2])))
			i += 2
		}
		part = string(b)
	}
	switch {
	case part == "":
		return bad("is empty")
	case part == "." || part == "..":
		return bad("is " + part)
	case !utf8.ValidString(part):
		return bad("is not UTF-8")
	case strings.ContainsFunc(part, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return bad("has a control character")
	}
	return part, nil
}

// HexDigit is the value of a hexadecimal digit; -1 of what is none.
func HexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// Allowed are the methods of a path, for the Allow header.
func Allowed[H any](methods map[string]H) string {
	var all []string
	for m := range methods {
		all = append(all, m)
		if m == "GET" {
			all = append(all, "HEAD")
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
