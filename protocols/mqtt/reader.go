package mqtt

import (
	"io"
	"net"

	"github.com/mochi-mqtt/server/v2/packets"
)

// packetReader cuts packets out of a connection's bytes. Its buffer is small while the
// connection is slow, and grows with what arrives at once: ten thousand idle connections
// must not cost ten thousand large buffers.
type packetReader struct {
	nc    net.Conn
	buf   []byte
	r, w  int                 // what lies between was read and not handed out
	got   func(n int64) int64 // told of what was read
	small int                 // reads in a row that would have fitted into a smaller buffer
}

const (
	minReadBuffer = 512
	maxReadBuffer = 32 << 10
	// shrinkAfter is how many small reads in a row give a large buffer back.
	shrinkAfter = 16
	// readStep bounds what is allocated for a packet ahead of its bytes.
	readStep = 256 << 10
)

// header reads the fixed header at the front of the buffer: how many bytes it has, 0 when
// it is not there yet as a whole.
func (p *packetReader) header() (fh packets.FixedHeader, n int, err error) {
	b := p.buf[p.r:p.w]
	if len(b) < 2 {
		return fh, 0, nil
	}
	if err := fh.Decode(b[0]); err != nil {
		return fh, 0, err
	}
	for i := 1; i < len(b); i++ {
		if i > 4 {
			return fh, 0, packets.ErrMalformedVariableByteInteger // section 1.5.5
		}
		fh.Remaining |= int(b[i]&0x7f) << (7 * (i - 1))
		if b[i] < 0x80 {
			return fh, i + 1, nil
		}
	}
	if len(b) > 4 {
		return fh, 0, packets.ErrMalformedVariableByteInteger
	}
	return fh, 0, nil
}

// buffered reports whether the next packet is here as a whole.
func (p *packetReader) buffered() bool {
	fh, n, err := p.header()
	return err != nil || n > 0 && p.w-p.r >= n+fh.Remaining
}

// next reads a packet whose length after the fixed header is at most limit. wait is called
// before each read of the connection. The body is valid until the next call.
func (p *packetReader) next(limit int, wait func()) (fh packets.FixedHeader, body []byte, err error) {
	for {
		fh, n, err := p.header()
		switch {
		case err != nil:
			return fh, nil, err
		case n == 0:
		case fh.Remaining > limit:
			return fh, nil, packets.ErrPacketTooLarge // section 3.2.2.3.6
		case p.w-p.r >= n+fh.Remaining:
			body := p.buf[p.r+n : p.r+n+fh.Remaining]
			p.r += n + fh.Remaining
			return fh, body, nil
		case n+fh.Remaining > maxReadBuffer:
			p.r += n
			body, err := p.large(fh.Remaining, wait)
			return fh, body, err
		}
		wait()
		if err := p.fill(n + fh.Remaining); err != nil {
			return fh, nil, err
		}
	}
}

// fill reads once, into a buffer of at least want bytes.
func (p *packetReader) fill(want int) error {
	if p.r == p.w {
		p.r, p.w = 0, 0
	}
	size := len(p.buf)
	switch {
	case size < max(want, minReadBuffer):
		size = max(size, minReadBuffer)
		for size < want {
			size *= 2
		}
	case p.r == p.w && p.small > shrinkAfter && size > minReadBuffer && want <= minReadBuffer:
		size, p.small = minReadBuffer, 0
	}
	if size != len(p.buf) {
		buf := make([]byte, size)
		p.w = copy(buf, p.buf[p.r:p.w])
		p.r, p.buf = 0, buf
	} else if p.w == len(p.buf) || p.r > 0 && len(p.buf)-p.r < want {
		p.w = copy(p.buf, p.buf[p.r:p.w])
		p.r = 0
	}
	n, err := p.nc.Read(p.buf[p.w:])
	p.got(int64(n))
	p.w += n
	switch {
	case n > 0 && p.w == len(p.buf) && len(p.buf) < maxReadBuffer:
		buf := make([]byte, 2*len(p.buf)) // more came at once than there was room for
		p.w = copy(buf, p.buf[p.r:p.w])
		p.r, p.buf, p.small = 0, buf, 0
	case n > minReadBuffer:
		p.small = 0
	default:
		p.small++
	}
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// large reads a body of n bytes that the buffer is too small for, into memory that grows
// with what arrives.
func (p *packetReader) large(n int, wait func()) ([]byte, error) {
	body := make([]byte, 0, min(n, readStep))
	body = append(body, p.buf[p.r:p.w]...)
	p.r, p.w = 0, 0
	for len(body) < n {
		if len(body) == cap(body) {
			body = append(body, make([]byte, min(n-len(body), len(body)))...)[:len(body)]
		}
		wait()
		k, err := p.nc.Read(body[len(body):min(cap(body), n)])
		p.got(int64(k))
		body = body[:len(body)+k]
		if err != nil && len(body) < n {
			return nil, err
		}
	}
	return body, nil
}
