package kafkarest

// maxDepth bounds how deep the JSON of a record may be nested.
const maxDepth = 1000

// scanner finds where the JSON objects of a stream end, which come in pieces. It looks at brackets
// and strings only; what is between them is for the decoder to judge.
type scanner struct {
	at      int // how much of the object at hand was looked at, with the white space before it
	depth   int
	quoted  bool
	escaped bool
}

// next is the length of the object that b begins with, with the white space before it; 0 where it
// is not there as a whole. b is then to be given again, with more behind it.
func (s *scanner) next(b []byte) (int, error) {
	for ; s.at < len(b); s.at++ {
		c := b[s.at]
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.escaped = c == '\\'
			s.quoted = c != '"'
		case s.depth == 0 && isSpace(c):
		case s.depth == 0 && c != '{':
			return 0, badJSON("a record is an object", int64(s.at))
		case c == '"':
			s.quoted = true
		case c == '{' || c == '[':
			if s.depth++; s.depth > maxDepth {
				return 0, badJSON("it is nested too deep", int64(s.at))
			}
		case c == '}' || c == ']':
			if s.depth--; s.depth == 0 {
				n := s.at + 1
				*s = scanner{}
				return n, nil
			}
		}
	}
	return 0, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// trimSpace is b without the white space that it begins with.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}
