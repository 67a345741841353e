//go:build !linux

package vfs

// VecWriter writes several buffers; here one after the other.
type VecWriter struct{}

// WriteAt writes bufs one after the other at off. When it returns an error, any
// prefix may have been written.
func (w *VecWriter) WriteAt(f File, bufs [][]byte, off int64) error { return writeEach(f, bufs, off) }

// Truncate cuts f to size bytes, or returns ErrUnsupported.
func Truncate(File, int64) error { return ErrUnsupported }

// StartWriting has the system begin to write n bytes of f at off; here it does nothing.
func StartWriting(_ File, _, _ int64) {}
