//go:build !linux

package vfs

import "io"

// Send writes n bytes of f at off to w. w's write deadline holds.
func Send(w io.Writer, f File, off, n int64) (int64, error) { return copyTo(w, f, off, n) }
