package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"polylog/core/vfs"
)

// disk looks at a data directory on this machine.
func (d *doctor) disk(dir string) {
	const check = "data directory"
	switch err := existing(dir); {
	case errors.Is(err, fs.ErrPermission):
		d.fail(check, "run doctor as the user that runs the broker", "%s cannot be read: %v", dir, err)
		return
	case err != nil:
		d.fail(check, "name the broker's with --data-dir; a broker that starts there makes a new one", "%v", err)
		return
	}
	if u, err := vfs.Default.GetDiskUsage(dir); err != nil {
		d.warn("disk space", "look at the file system", "of %s is not known: %v", dir, err)
	} else {
		d.space("disk space of "+dir, int64(u.AvailBytes))
	}
	took, err := syncLatency(dir)
	switch {
	case err != nil:
		d.fail(check, "the broker must be able to write there: look at the directory's owner and at mount options", "%s cannot be written: %v", dir, err)
	case took > slowSync:
		d.warn("disk latency", "flush: sync confirms no publish faster than that; a disk with a cache that outlives power cuts, or flush: interval, are the ways out", "a write takes %v to last, at the median", took)
	default:
		d.ok("disk latency", "a write takes %v to last, at the median", took)
	}
}

// space judges how much of a disk is left, in bytes; negative is not known.
func (d *doctor) space(check string, left int64) {
	const advice = "make room, add disk, or lower retention.bytes and retention.ms of large topics"
	switch {
	case left < 0:
		d.note(check, stateSkipped, "", "nobody knows")
	case left < noDisk:
		d.fail(check, advice, "%s are left", bytesText(left))
	case left < littleDisk:
		d.warn(check, advice, "%s are left", bytesText(left))
	default:
		d.ok(check, "%s are left", bytesText(left))
	}
}

// syncWrites is how many writes syncLatency tries.
const syncWrites = 20

// syncLatency is how long a write of 4 KiB takes until it is on the disk, at the median.
func syncLatency(dir string) (took time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	all := make([]time.Duration, syncWrites)
	page := make([]byte, 4096)
	for i := range all {
		begin := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all[i] = time.Since(begin)
	}
	slices.Sort(all)
	return all[syncWrites/2].Round(10 * time.Microsecond), nil
}

// limits looks at what this shell lets a broker have that is started from it.
func (d *doctor) limits() {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		d.note("open files", stateSkipped, "", "nobody knows: %v", err)
		return
	}
	if l.Max < fewFiles { // Go takes as many as it may
		d.warn("open files", "raise LimitNOFILE of the systemd unit, or the hard limit of ulimit -n", "a process of this shell may have %d at most: each connection and each segment of the log takes one", l.Max)
		return
	}
	d.ok("open files", "a process of this shell may have %d", l.Max)
}
