package core

import "io"

// Extent is a part of a log entry that is not read: its bytes stay in the log's file
// until they are sent. While it is held they do not change, whatever is removed from the
// log meanwhile.
type Extent interface {
	// SendTo writes the n bytes at from of the extent to w and returns how many it
	// has written, which is n unless there is an error.
	SendTo(w io.Writer, from, n int64) (int64, error)
	// Release gives the extent back. It must be called once, after the last SendTo.
	Release()
}
