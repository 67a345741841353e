package cluster

import (
	"errors"
	"os"

	"polylog/core/vfs"
)

// A full disk would be for ever: freeing space takes a start, commands of retention in
// the log and a checkpoint, and all of these write first. So a file of reserveBytes
// that holds nothing is kept while there is room, and given up by a start without.
const (
	reserveName  = "reserve"
	reserveBytes = 32 << 20
)

// MakeRoom is for a start. It gives the reserve up when the disk has less room than
// that, and reports whether it did: then free space before you take new data.
// Otherwise it sees to it that there is one.
func (h *Home) MakeRoom() (short bool, err error) {
	if room, known := h.room(); !known || room >= reserveBytes {
		return false, h.keepReserve()
	}
	err = h.fs.Remove(h.reserve())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// keepReserve makes the reserve again when there is plenty of room, and fills one that was
// copied: its space is behind its end, and a copy has none.
func (h *Home) keepReserve() error {
	if room, known := h.room(); !known || room < 2*reserveBytes {
		return nil
	}
	f, err := h.fs.OpenReadWrite(h.reserve(), vfs.Category)
	if err != nil {
		return err
	}
	if err = errors.Join(f.Preallocate(0, reserveBytes), f.Close()); err != nil {
		return errors.Join(err, h.fs.Remove(h.reserve()))
	}
	return nil
}

func (h *Home) reserve() string { return h.fs.PathJoin(h.dir, reserveName) }

// room is how many bytes fit on the disk, where the file system can tell.
func (h *Home) room() (bytes uint64, known bool) {
	u, err := h.fs.GetDiskUsage(h.dir)
	return u.AvailBytes, err == nil
}
