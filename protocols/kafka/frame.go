package kafka

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A request on the wire (Kafka protocol guide, "Request Headers"); numbers are
// big-endian, and length counts what follows it:
//
//	 0             4         6         8                12
//	+-------------+---------+---------+----------------+-------------------+
//	| length, i32 | API key | version | correlation id | client id, i16    |
//	|             | i16     | i16     | i32            | length (-1: null) |
//	+-------------+---------+---------+----------------+-------------------+
//	| tagged fields: flexible versions only | body …
//	+---------------------------------------+------
//
// A response has length, correlation id and, in flexible versions, tagged fields.
// ApiVersions responses never have the tagged fields, because the client cannot know
// yet which versions the broker speaks.
const (
	frameLengthLen = 4
	frameHeadLen   = 8 // API key, version, correlation id: in every header
)

const (
	// frameFirst is how much of a frame is allocated before any of it has arrived.
	frameFirst = 64 << 10
	// frameStep is the next size, which most frames end with: each copy costs time. It is
	// also how much of a frame may arrive under one deadline.
	frameStep = 2 << 20
)

var (
	errFrameLength = errors.New("frame length out of bounds")
	errHeader      = errors.New("malformed request header")
)

// frameHead is the part of a request header that every version has.
type frameHead struct {
	key, version int16
	correlation  int32
}

// peekFrameLength waits for a frame and returns its length without consuming it.
func peekFrameLength(br *bufio.Reader, limit int) (int, error) {
	b, err := br.Peek(frameLengthLen)
	if err != nil {
		return 0, err
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < frameHeadLen || n > limit {
		return 0, fmt.Errorf("%w: %d bytes, want %d to %d", errFrameLength, n, frameHeadLen, limit)
	}
	return n, nil
}

// peekFrameHead waits for a header's front without consuming it.
func peekFrameHead(br *bufio.Reader) (frameHead, error) {
	b, err := br.Peek(frameLengthLen + frameHeadLen)
	if err != nil {
		return frameHead{}, unexpected(err)
	}
	b = b[frameLengthLen:]
	return frameHead{
		key:         int16(binary.BigEndian.Uint16(b[0:])),
		version:     int16(binary.BigEndian.Uint16(b[2:])),
		correlation: int32(binary.BigEndian.Uint32(b[4:])),
	}, nil
}

// readFrame consumes a frame of n bytes and returns what follows its head. A large
// buffer grows with the bytes that arrive: a length that lies costs us no more than its
// first step. before is called ahead of each piece: the frame's memory is about to grow
// by grow bytes, then want bytes are read; last says that it need not grow again.
func readFrame(br *bufio.Reader, n int, before func(grow, want int, last bool) error) (*buffer, error) {
	if _, err := br.Discard(frameLengthLen + frameHeadLen); err != nil {
		return nil, unexpected(err)
	}
	n -= frameHeadLen
	size := min(n, frameFirst)
	if err := before(size+frameHeadLen, min(size, frameStep), size == n); err != nil {
		return nil, err
	}
	buf := getBuffer(size)
	for {
		have := len(buf.b)
		buf.b = buf.b[:min(size, have+frameStep)]
		if _, err := io.ReadFull(br, buf.b[have:]); err != nil {
			buf.release()
			return nil, unexpected(err)
		}
		have = len(buf.b)
		if have == n {
			return buf, nil
		}
		grow := 0
		if have == size {
			size = min(n, max(frameStep, 2*size))
			grow = size - have
		}
		if err := before(grow, min(size-have, frameStep), size == n); err != nil {
			buf.release()
			return nil, err
		}
		if grow > 0 {
			larger := getBuffer(size)
			larger.b = append(larger.b, buf.b...)
			buf.release()
			buf = larger
		}
	}
}

// unexpected is err for a stream that ends inside a frame.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// splitHeader takes the rest of a request header off b, which starts after the head:
// the client id and, in flexible versions, the tagged fields, which are skipped.
func splitHeader(b []byte, flexible bool) (clientID, body []byte, err error) {
	if len(b) < 2 {
		return nil, nil, fmt.Errorf("%w: %d bytes for the client id", errHeader, len(b))
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n > len(b) {
		return nil, nil, fmt.Errorf("%w: client id of %d bytes, %d remain", errHeader, n, len(b))
	}
	if n > 0 {
		clientID, b = b[:n], b[n:]
	}
	if !flexible {
		return clientID, b, nil
	}
	tags, b, ok := uvarint(b)
	for ; ok && tags > 0; tags-- {
		var size uint64
		if _, b, ok = uvarint(b); !ok {
			break
		}
		if size, b, ok = uvarint(b); !ok || size > uint64(len(b)) {
			ok = false
			break
		}
		b = b[size:]
	}
	if !ok {
		return nil, nil, fmt.Errorf("%w: tagged fields", errHeader)
	}
	return clientID, b, nil
}

func uvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}
