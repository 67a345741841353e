package vfs

import (
	"errors"
	"io"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Send writes n bytes of f at off to w: by sendfile, so that they are not copied, when
// f is a file of the operating system and w a socket, by reading and writing otherwise.
// w's write deadline holds.
func Send(w io.Writer, f File, off, n int64) (int64, error) {
	fd := f.Fd()
	sock, ok := w.(syscall.Conn)
	if fd == InvalidFd || !ok {
		return copyTo(w, f, off, n)
	}
	raw, err := sock.SyscallConn()
	if err != nil {
		return 0, err
	}
	sent, err := sendFile(raw, int(fd), off, n)
	runtime.KeepAlive(f)
	if sent == 0 && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)) { // such a file or socket cannot
		return copyTo(w, f, off, n)
	}
	return sent, err
}

func sendFile(raw syscall.RawConn, fd int, off, n int64) (sent int64, err error) {
	werr := raw.Write(func(sock uintptr) (done bool) {
		for sent < n {
			at := off + sent
			var k int
			k, err = unix.Sendfile(int(sock), fd, &at, int(min(n-sent, 1<<30)))
			switch {
			case errors.Is(err, unix.EINTR):
				err = nil
			case errors.Is(err, unix.EAGAIN):
				err = nil
				return false
			case err != nil:
				return true
			case k == 0:
				err = io.ErrUnexpectedEOF
				return true
			}
			sent += int64(max(k, 0))
		}
		return true
	})
	if err == nil {
		err = werr
	}
	return sent, err
}
