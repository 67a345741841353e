package core

import (
	"encoding/binary"
	"fmt"
)

// A log entry's data is a group of commands that waited together:
//
//	 0        1                 9
//	+--------+-----------------+---------+---------+---
//	| version| time, ms (i64)  | command | command | …
//	+--------+-----------------+---------+---------+---
//
//	command:
//	 0              4      5
//	+--------------+------+----------------------+
//	| length (u32) | code | body (length-1 bytes)|
//	+--------------+------+----------------------+
//
// Numbers are big-endian. length counts the code and the body. time is the
// proposer's clock when the group was formed: the only clock that Apply knows. The
// body's layout belongs to router/state; positions of payloads in a body are kept
// as (index, position in the entry's data), so an entry is never re-encoded.
const (
	// EntryVersion is the first byte of every entry's data.
	EntryVersion = 1
	// EntryHeaderLen is the length of version and time, in bytes.
	EntryHeaderLen = 9
	// CommandHeaderLen is the length of a command's length and code, in bytes.
	CommandHeaderLen = 5
	// MaxCommandLen bounds one command's encoded length, in bytes. It leaves room
	// for the largest batch that a topic can be configured to accept.
	MaxCommandLen = 128 << 20
)

// Code says what a command asks for. Codes are defined by router/state and are
// never reused.
type Code uint8

// Command is a request to change the replicated state. Its encoded body is Head
// followed by Payload; Payload may alias a network buffer, which its owner must
// leave untouched until the command's outcome is known.
type Command struct {
	Code    Code
	Head    []byte
	Payload []byte

	// CheckedLen, when above 0, says that CheckedCRC is the CRC32C of the last
	// CheckedLen bytes of Payload. The proposer has computed it over these very bytes:
	// the log's checksum is derived from it, so a wrong one makes a damaged entry.
	CheckedLen int
	CheckedCRC uint32

	// Sequence is the one that the command belongs to, or nil. It is the proposer's, and not encoded.
	Sequence *Sequence

	// Term, when above 0, is the one that this node has to lead in: in no other, and at no other node,
	// the command is done. It is the proposer's, and not encoded.
	Term Term
}

// EncodedLen is the number of bytes that AppendCommand adds.
func (c *Command) EncodedLen() int { return CommandHeaderLen + len(c.Head) + len(c.Payload) }

// AppendEntryHeader starts an entry's data in dst.
func AppendEntryHeader(dst []byte, timeMillis int64) []byte {
	dst = append(dst, EntryVersion)
	return binary.BigEndian.AppendUint64(dst, uint64(timeMillis))
}

// AppendCommand adds c to an entry's data in dst.
func AppendCommand(dst []byte, c *Command) []byte {
	dst = appendCommandHeader(dst, c)
	dst = append(dst, c.Head...)
	return append(dst, c.Payload...)
}

func appendCommandHeader(dst []byte, c *Command) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(1+len(c.Head)+len(c.Payload)))
	return append(dst, byte(c.Code))
}

// Entry is a committed log entry that holds commands.
type Entry struct {
	Index LogIndex
	Term  Term
	Data  []byte
}

// Time is the proposer's clock in ms since the epoch; 0 when the data is too short.
func (e Entry) Time() int64 {
	if len(e.Data) < EntryHeaderLen {
		return 0
	}
	return int64(binary.BigEndian.Uint64(e.Data[1:]))
}

// Commands calls fn for each command: its code, its body (aliasing the data), and
// the body's position in the entry's data. It returns an error of kind Corrupt,
// and stops, at the first malformed byte.
func (e Entry) Commands(fn func(code Code, body []byte, pos uint32)) error {
	if len(e.Data) < EntryHeaderLen {
		return E(Corrupt, "entry %d: %d bytes, want at least %d", e.Index, len(e.Data), EntryHeaderLen)
	}
	if v := e.Data[0]; v != EntryVersion {
		return E(Corrupt, "entry %d: version %d, this binary knows %d", e.Index, v, EntryVersion)
	}
	for pos := EntryHeaderLen; pos < len(e.Data); {
		if len(e.Data)-pos < CommandHeaderLen {
			return E(Corrupt, "entry %d: %d bytes after the last command", e.Index, len(e.Data)-pos)
		}
		n := int(binary.BigEndian.Uint32(e.Data[pos:]))
		if n < 1 || n > len(e.Data)-pos-4 {
			return E(Corrupt, "entry %d: command of %d bytes at %d, %d remain", e.Index, n, pos, len(e.Data)-pos-4)
		}
		fn(Code(e.Data[pos+4]), e.Data[pos+CommandHeaderLen:pos+4+n], uint32(pos+CommandHeaderLen))
		pos += 4 + n
	}
	return nil
}

// Result is the outcome of one command, given by Apply.
type Result struct {
	Err    *Error // nil when it was done
	Offset Offset // append: the batch's first offset
	Start  Offset // append: the queue's start offset
	Body   []byte // other commands: what router/state says, its own encoding
}

// String is for logs and test scripts.
func (r Result) String() string {
	if r.Err != nil {
		return fmt.Sprintf("%s: %s", r.Err.Kind.Error(), r.Err.Msg)
	}
	return fmt.Sprintf("ok offset=%d start=%d body=%d bytes", r.Offset, r.Start, len(r.Body))
}
