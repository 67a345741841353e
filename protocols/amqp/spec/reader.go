package spec

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"unicode/utf8"
)

// reader takes AMQP's elementary types (section 4.2.5) off the front of a payload. After the
// first error every value is zero.
type reader struct {
	b     []byte
	err   error
	names *names // nil: none are remembered
	text  bool   // short strings must be UTF-8
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrSyntax, what)
	}
	r.b = nil
}

// close is the first error, or that something is left.
func (r *reader) close() error {
	if len(r.b) > 0 {
		r.fail(fmt.Sprintf("%d bytes too many", len(r.b)))
	}
	return r.err
}

// take takes n bytes without copying.
func (r *reader) take(n int) []byte {
	if n > len(r.b) || n < 0 {
		r.fail(fmt.Sprintf("it ends %d bytes early", n-len(r.b)))
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) octet() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) short() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) long() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) longlong() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) timestamp() int64 { return int64(r.longlong()) }

func (r *reader) shortstr() string { return string(r.take(int(r.octet()))) }

// name is a shortstr that is likely to come again.
func (r *reader) name() string {
	b := r.take(int(r.octet()))
	if r.names != nil {
		if s, ok := r.names.find(b); ok {
			return s
		}
	}
	if r.text && !utf8.Valid(b) {
		r.err, r.b = ErrText, nil
		return ""
	}
	s := string(b)
	if r.names != nil {
		r.names.keep(s)
	}
	return s
}

// counted takes a length of 32 bits and that many bytes, without copying.
func (r *reader) counted() []byte {
	n := r.long()
	if uint64(n) > uint64(len(r.b)) {
		r.fail(fmt.Sprintf("a length of %d with %d bytes left", n, len(r.b)))
		return nil
	}
	return r.take(int(n))
}

// longstr is a copy; nil when it is empty.
func (r *reader) longstr() []byte { return append([]byte(nil), r.counted()...) }

// names remembers strings, the latest of each hash. The zero value is empty.
type names struct {
	known [32]string
}

// maxName bounds what is remembered, in bytes.
const maxName = 64

var nameSeed = maphash.MakeSeed()

func (n *names) find(b []byte) (string, bool) {
	if len(b) == 0 {
		return "", true
	}
	s := n.known[maphash.Bytes(nameSeed, b)%uint64(len(n.known))]
	return s, s == string(b) // compares without a copy
}

func (n *names) keep(s string) {
	if len(s) <= maxName && utf8.ValidString(s) {
		n.known[maphash.String(nameSeed, s)%uint64(len(n.known))] = s
	}
}
