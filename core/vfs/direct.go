package vfs

import (
	"errors"
	"io"
)

// ErrUnsupported says that a file is not the operating system's, so that the
// operation cannot be done on it.
var ErrUnsupported = errors.New("vfs: not a file of the operating system")

// IsOS reports whether f is a file of the operating system, which can be truncated
// and written from several buffers at once.
func IsOS(f File) bool { return f.Fd() != InvalidFd }

// InvalidFd is what Fd gives for files that are not the operating system's.
const InvalidFd = ^uintptr(0)

// writeEach is WriteVec for files that are not the operating system's.
func writeEach(f File, bufs [][]byte, off int64) error {
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		n, err := f.WriteAt(b, off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// copyTo is Send without sendfile.
func copyTo(w io.Writer, f File, off, n int64) (int64, error) {
	sent, err := io.Copy(w, io.NewSectionReader(f, off, n))
	if err == nil && sent < n {
		err = io.ErrUnexpectedEOF
	}
	return sent, err
}
