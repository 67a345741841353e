package front

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Gone reports whether the client has closed its connection: fasthttp does not say so. What
// it has sent meanwhile stays unread. A client that closes only its own half counts as gone.
func Gone(c net.Conn) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			closed = n == 0
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			closed = true
		}
	})
	return err != nil || closed
}
