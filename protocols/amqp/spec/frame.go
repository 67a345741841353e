package spec

import "encoding/binary"

// A frame (section 2.3.5):
//
//	 0      1         3             7
//	+------+---------+-------------+---------+----------+
//	| type | channel | size of     | payload | end,     |
//	| u8   | u16     | payload u32 |         | 206      |
//	+------+---------+-------------+---------+----------+
const (
	// FrameHeadLen is the length of what comes before a frame's payload.
	FrameHeadLen = 7
	// FrameOverhead is the length of what a frame has beside its payload.
	FrameOverhead = FrameHeadLen + 1
)

// FrameHead is what comes before a frame's payload.
type FrameHead struct {
	Type    uint8
	Channel uint16
	Size    uint32 // of the payload
}

// ParseFrameHead decodes the front of b, which has at least FrameHeadLen bytes.
func ParseFrameHead(b []byte) FrameHead {
	return FrameHead{b[0], binary.BigEndian.Uint16(b[1:]), binary.BigEndian.Uint32(b[3:])}
}

func appendFrameHead(b []byte, typ uint8, channel uint16, size int) []byte {
	b = append(b, typ, byte(channel>>8), byte(channel))
	return appendLong(b, uint32(size))
}

// endFrame ends the frame that begins at b[at].
func endFrame(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at+3:], uint32(len(b)-at-FrameHeadLen))
	return append(b, FrameEnd)
}

// AppendMethod appends a method frame.
func AppendMethod(b []byte, channel uint16, m Method) []byte {
	at := len(b)
	b = appendFrameHead(b, FrameMethod, channel, 0)
	b = appendLong(b, uint32(m.ID()))
	return endFrame(m.AppendTo(b), at)
}

// AppendHeader appends a content header frame for a body of size bytes.
func AppendHeader(b []byte, channel uint16, size int, p *Properties) []byte {
	at := len(b)
	b = appendFrameHead(b, FrameHeader, channel, 0)
	b = appendShort(b, BasicClass)
	b = appendShort(b, 0) // weight
	b = appendLonglong(b, uint64(size))
	return endFrame(p.AppendTo(b), at)
}

// AppendBody appends a body frame.
func AppendBody(b []byte, channel uint16, body []byte) []byte {
	b = AppendBodyHead(b, channel, len(body))
	return append(append(b, body...), FrameEnd)
}

// AppendBodyHead appends the front of a body frame: n bytes and FrameEnd have to follow.
func AppendBodyHead(b []byte, channel uint16, n int) []byte {
	return appendFrameHead(b, FrameBody, channel, n)
}

// AppendHeartbeat appends a heartbeat frame (section 4.2.7).
func AppendHeartbeat(b []byte) []byte {
	return append(appendFrameHead(b, FrameHeartbeat, 0, 0), FrameEnd)
}
