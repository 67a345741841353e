package spec

import (
	"encoding/binary"
	"unicode/utf8"

	"polylog/core/message"
)

func appendOctet(b []byte, v uint8) []byte         { return append(b, v) }
func appendShort(b []byte, v uint16) []byte        { return binary.BigEndian.AppendUint16(b, v) }
func appendLong(b []byte, v uint32) []byte         { return binary.BigEndian.AppendUint32(b, v) }
func appendLonglong(b []byte, v uint64) []byte     { return binary.BigEndian.AppendUint64(b, v) }
func appendTimestamp(b []byte, v int64) []byte     { return appendLonglong(b, uint64(v)) }
func appendTable(b []byte, t message.Table) []byte { return AppendTable(b, t) }

// MaxShortstr is the most bytes of a short string.
const MaxShortstr = 255

// appendShortstr appends s, cut to what a short string can hold.
func appendShortstr(b []byte, s string) []byte {
	s = Cut(s)
	return append(append(b, byte(len(s))), s...)
}

// Cut is s, or its front where it is too long for a short string, without half a character.
func Cut(s string) string {
	if len(s) <= MaxShortstr {
		return s
	}
	n := MaxShortstr
	for n > MaxShortstr-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func appendLongstr(b, s []byte) []byte { return append(appendLong(b, uint32(len(s))), s...) }

// appendBits appends up to eight bits in one octet, the first one lowest.
func appendBits(b []byte, bits ...bool) []byte {
	var octet byte
	for i, bit := range bits {
		if bit {
			octet |= 1 << i
		}
	}
	return append(b, octet)
}
