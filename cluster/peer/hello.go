package peer

import (
	"encoding/binary"
	"io"

	"polylog/core"
	"polylog/core/wire"
)

// The greeting. The caller sends a hello, the listener an answer:
//
//	 0        4         5      6            8
//	+--------+---------+------+------------+----------------------------------------+
//	| "PLNW" | version | use  | length u16 | cluster id, node id, id of wanted node |
//	+--------+---------+------+------------+----------------------------------------+
//	+--------+---------+------+------------+----------------------------------------+
//	| "PLNW" | version | kind | length u16 | cluster id, node id, message           |
//	+--------+---------+------+------------+----------------------------------------+
//
// Texts are as wire.AppendString writes them. version is the newest that the sender of
// a hello speaks, and in an answer the one that both will. kind is 0, or the core.Kind
// of the refusal. An empty cluster id is that of a node that belongs to none yet; an
// empty wanted node means any. Bytes after the three texts are left to later versions.
const (
	magic       = "PLNW"
	version     = 1 // the newest
	headerLen   = 8
	maxGreeting = 2048 // bytes after the header
)

// Use is what a connection is for.
type Use byte

// The uses. The numbers travel between nodes.
const (
	Raft    Use = 1
	streams Use = 2
)

type hello struct {
	version               byte
	use                   Use
	cluster, node, wanted string
}

type answer struct {
	version       byte
	kind          core.Kind
	cluster, node string
	message       string
}

func (h *hello) encode() []byte {
	return greeting(h.version, byte(h.use), h.cluster, h.node, h.wanted)
}

func (a *answer) encode() []byte {
	const longest = 1024
	return greeting(a.version, byte(a.kind), a.cluster, a.node, a.message[:min(len(a.message), longest)])
}

func greeting(version, what byte, texts ...string) []byte {
	b := append([]byte(magic), version, what, 0, 0)
	for _, t := range texts {
		b = wire.AppendString(b, t)
	}
	binary.BigEndian.PutUint16(b[headerLen-2:], uint16(len(b)-headerLen))
	return b
}

func readHello(r io.Reader) (*hello, error) {
	version, what, texts, err := readGreeting(r)
	if err != nil {
		return nil, err
	}
	return &hello{version: version, use: Use(what), cluster: texts[0], node: texts[1], wanted: texts[2]}, nil
}

func readAnswer(r io.Reader) (*answer, error) {
	version, what, texts, err := readGreeting(r)
	if err != nil {
		return nil, err
	}
	return &answer{version: version, kind: core.Kind(what), cluster: texts[0], node: texts[1], message: texts[2]}, nil
}

func readGreeting(r io.Reader) (version, what byte, texts [3]string, err error) {
	var head [headerLen]byte
	if _, err := io.ReadFull(r, head[:len(magic)]); err != nil {
		return 0, 0, texts, err
	}
	if string(head[:len(magic)]) != magic {
		return 0, 0, texts, notAGreeting(head[:len(magic)])
	}
	if _, err := io.ReadFull(r, head[len(magic):]); err != nil {
		return 0, 0, texts, err
	}
	n := int(binary.BigEndian.Uint16(head[headerLen-2:]))
	if n > maxGreeting {
		return 0, 0, texts, core.E(core.TooLarge, "greeting of %d bytes, the limit is %d", n, maxGreeting)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, 0, texts, err
	}
	w := wire.NewReader(body)
	for i := range texts {
		texts[i] = w.String()
	}
	if w.Err() != nil {
		return 0, 0, texts, core.E(core.Invalid, "greeting: %v", w.Err())
	}
	return head[4], head[5], texts, nil
}

// notAGreeting says what a connection that begins otherwise may be.
func notAGreeting(b []byte) error {
	switch b[0] {
	case 0x15, 0x16: // alert and handshake records, RFC 8446 section 5.1
		return core.E(core.Invalid, "the other side speaks TLS and this node does not: %s", setBoth)
	default:
		return core.E(core.Invalid, "the other side is no polylog node: it begins with %q", b)
	}
}
