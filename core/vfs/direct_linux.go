package vfs

import (
	"errors"
	"io"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxVec is how many buffers one system call takes (IOV_MAX).
const maxVec = 1024

// VecWriter writes several buffers with one system call. The zero value is ready;
// it keeps its scratch memory, so that writing allocates nothing.
type VecWriter struct{ iov []unix.Iovec }

// WriteAt writes bufs one after the other at off. When it returns an error, any
// prefix may have been written.
func (w *VecWriter) WriteAt(f File, bufs [][]byte, off int64) error {
	fd := f.Fd()
	if fd == InvalidFd {
		return writeEach(f, bufs, off)
	}
	iov := w.iov[:0]
	for _, b := range bufs {
		if len(b) > 0 {
			v := unix.Iovec{Base: unsafe.SliceData(b)}
			v.SetLen(len(b))
			iov = append(iov, v)
		}
	}
	w.iov = iov
	defer clear(w.iov) // or they would pin the buffers
	for len(iov) > 0 {
		part := iov[:min(len(iov), maxVec)]
		n, _, errno := unix.Syscall6(unix.SYS_PWRITEV, fd, uintptr(unsafe.Pointer(&part[0])),
			uintptr(len(part)), uintptr(off), 0, 0)
		runtime.KeepAlive(f)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return errno
		case n == 0:
			return io.ErrShortWrite
		}
		off += int64(n)
		iov = skip(iov, int(n))
	}
	return nil
}

// skip drops the first n bytes of what iov names.
func skip(iov []unix.Iovec, n int) []unix.Iovec {
	for len(iov) > 0 && n >= int(iov[0].Len) {
		n -= int(iov[0].Len)
		iov = iov[1:]
	}
	if n > 0 {
		iov[0].Base = (*byte)(unsafe.Add(unsafe.Pointer(iov[0].Base), n))
		iov[0].SetLen(int(iov[0].Len) - n)
	}
	return iov
}

// Truncate cuts f to size bytes, or returns ErrUnsupported.
func Truncate(f File, size int64) error {
	fd := f.Fd()
	if fd == InvalidFd {
		return ErrUnsupported
	}
	err := unix.Ftruncate(int(fd), size)
	for errors.Is(err, unix.EINTR) {
		err = unix.Ftruncate(int(fd), size)
	}
	runtime.KeepAlive(f)
	return err
}

// StartWriting has the system begin to write n bytes of f at off to the disk, without
// waiting. It is only a hint: a later SyncData waits for them, and reports if it fails.
func StartWriting(f File, off, n int64) {
	if fd := f.Fd(); fd != InvalidFd {
		_ = unix.SyncFileRange(int(fd), off, n, unix.SYNC_FILE_RANGE_WRITE)
		runtime.KeepAlive(f)
	}
}
