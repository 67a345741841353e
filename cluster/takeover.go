package cluster

import (
	"errors"
	"fmt"
	"os"

	"polylog/core"
	"polylog/core/vfs"
)

// How a state that was fetched takes the place of a node's own. While it is fetched it
// is in the directory "incoming". When all of it is there, checked and durable, one
// rename to "arrived" decides; the process ends (guard 7), and the next start, before
// anything is opened, moves the parts from there: index, log, and last raft's snapshot
// record, which the manifest holds. Each move can be repeated, so that a crash at any
// moment leaves the old state or leads to the new one. The vote file stays.

// decide makes what has arrived the node's state, from the next start on.
func decide(fs vfs.FS, dir string) error {
	if err := fs.Rename(fs.PathJoin(dir, incomingName), fs.PathJoin(dir, arrivedName)); err != nil {
		return err
	}
	return vfs.SyncDir(fs, dir)
}

// takeOver completes what decide has decided, if anything, and removes what a run of
// the process left behind.
func (h *Home) takeOver() error {
	if err := h.fs.RemoveAll(h.fs.PathJoin(h.dir, exportsName)); err != nil {
		return err
	}
	from := h.fs.PathJoin(h.dir, arrivedName)
	b, err := vfs.ReadFile(h.fs, h.fs.PathJoin(from, manifestName))
	if errors.Is(err, os.ErrNotExist) {
		return h.fs.RemoveAll(from) // the manifest goes last but for the directory
	}
	var m *manifest
	if err == nil {
		m, err = decodeManifest(b)
	}
	if err == nil && m.cluster != h.clusterID {
		err = core.E(core.Conflict, "of cluster %s, the directory belongs to %s", m.cluster, h.clusterID)
	}
	if err == nil {
		err = h.moveIn(from, m)
	}
	if err != nil {
		return fmt.Errorf("take over %s: %w", from, err)
	}
	return nil
}

func (h *Home) moveIn(from string, m *manifest) error {
	for _, sub := range []string{indexName, logName} {
		src, dst := h.fs.PathJoin(from, sub), h.fs.PathJoin(h.dir, sub)
		if _, err := h.fs.Stat(src); errors.Is(err, os.ErrNotExist) {
			continue // moved before a crash
		} else if err != nil {
			return err
		}
		if err := h.fs.RemoveAll(dst); err != nil {
			return err
		}
		if err := h.fs.Rename(src, dst); err != nil {
			return err
		}
		// First where it is now: in between it may be in both places, never in none.
		if err := errors.Join(vfs.SyncDir(h.fs, h.dir), vfs.SyncDir(h.fs, from)); err != nil {
			return err
		}
	}
	raftDir := h.fs.PathJoin(h.dir, raftName)
	if err := vfs.WriteFile(h.fs, h.fs.PathJoin(raftDir, snapshotName), m.snap.encode()); err != nil {
		return err
	}
	if err := h.fs.Remove(h.fs.PathJoin(from, manifestName)); err != nil {
		return err
	}
	if err := vfs.SyncDir(h.fs, from); err != nil {
		return err
	}
	if err := h.fs.RemoveAll(from); err != nil {
		return err
	}
	return vfs.SyncDir(h.fs, h.dir)
}

// IndexDir is where the index of the directory's node belongs.
func (h *Home) IndexDir() string { return h.fs.PathJoin(h.dir, indexName) }
