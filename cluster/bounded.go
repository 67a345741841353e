package cluster

import (
	"net"
	"time"

	"polylog/core"
)

// maxCallBytes bounds a call of raft's, in bytes: AppendEntries sends maxAppendBytes, or one
// entry, with one command of any length and what was grouped with it. The rest is for what is
// around that. A configuration or a snapshot's record is far shorter.
const maxCallBytes = core.MaxCommandLen + 2*maxAppendBytes

// boundedConn is a connection on which raft takes calls. Raft's decoder takes memory for what
// comes, however much that is, and waits for the rest of half a call for as long as the
// connection lasts; so that here ends, where the call is too long or takes longer than its
// caller waits. Calls do not overlap: each is answered, by a Write, before the next is read.
type boundedConn struct {
	net.Conn
	left  int64         // bytes that the call may still have
	limit int64         // of a call
	wait  time.Duration // for the rest of a call that has begun
}

func newBoundedConn(c net.Conn) *boundedConn {
	return &boundedConn{Conn: c, left: maxCallBytes, limit: maxCallBytes, wait: rpcTimeout}
}

// Read implements net.Conn.
func (c *boundedConn) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, core.E(core.TooLarge, "call of more than %d bytes", c.limit)
	}
	begins := c.left == c.limit
	n, err := c.Conn.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	if begins && n > 0 && err == nil {
		err = c.SetReadDeadline(time.Now().Add(c.wait))
	}
	return n, err
}

// Write implements net.Conn.
func (c *boundedConn) Write(b []byte) (int, error) {
	if c.left != c.limit {
		c.left = c.limit
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}
