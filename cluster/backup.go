package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// BackupService is the service "files" for command lines: they belong to no cluster.
const BackupService = "backup"

// BackupInfo describes a backup.
type BackupInfo struct {
	ClusterID string
	Made      int64         // ms since 1970
	Last      core.LogIndex // the last entry that it contains
	Files     int
	Bytes     int64
}

func (m *manifest) info() BackupInfo {
	return BackupInfo{ClusterID: m.cluster, Made: m.made, Last: m.snap.index, Files: len(m.files) + len(m.segments), Bytes: m.bytes()}
}

// Backup fetches a node's state, over a stream of BackupService, to the directory dir,
// which must not exist or be empty. Until it is whole it is in dir + ".incoming", where
// another call for the same dir goes on.
func Backup(fs vfs.FS, s core.Stream, dir string) (BackupInfo, error) {
	if err := unused(fs, dir); err != nil {
		return BackupInfo{}, err
	}
	var received atomic.Int64
	f := fetcher{fs: fs, dir: dir + ".incoming", stream: s, received: &received, whole: map[string]terms{}}
	m, err := f.manifest("", nil)
	if err == nil {
		err = f.all(m)
	}
	if err != nil {
		return BackupInfo{}, err
	}
	if err := ignoreMissing(fs.Remove(dir)); err != nil {
		return BackupInfo{}, err
	}
	if err := fs.Rename(f.dir, dir); err != nil {
		return BackupInfo{}, err
	}
	return m.info(), vfs.SyncDir(fs, fs.PathDir(dir))
}

func unused(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err == nil && len(names) > 0 {
		err = core.E(core.Exists, "%s is not empty: it holds %q", dir, names[0])
	}
	return ignoreMissing(err)
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// RestoreOptions say what becomes of a backup. From and Dir are required.
type RestoreOptions struct {
	FS        vfs.FS
	From      string // the backup
	Dir       string // the data directory to be: missing, empty, or left half-way by an earlier call
	NodeID    string // of the node that it will be of; "1" when empty
	ClusterID string // a new one when empty
	// First gives the first commands of the restored log, from the restored index.
	First func(indexDir string) ([]core.Command, error)
}

// restoringName marks a data directory that is not whole yet.
const restoringName = "restoring"

// Restore makes a data directory of a backup: that of a cluster's only node, with the
// backup's data. Every byte of the backup is checked. The directory is a node's only
// when all of it is there; after a crash it is none, and the call can be repeated.
func Restore(ctx context.Context, o RestoreOptions) (BackupInfo, error) {
	if o.ClusterID != "" && !validUUID(o.ClusterID) {
		return BackupInfo{}, core.E(core.Invalid, "cluster id %.40q: want 22 characters of base64", o.ClusterID)
	}
	fs := o.FS
	b, err := vfs.ReadFile(fs, fs.PathJoin(o.From, manifestName))
	if errors.Is(err, os.ErrNotExist) {
		return BackupInfo{}, core.E(core.NotFound, "%s is not a backup: it has no file %s", o.From, manifestName)
	}
	if err != nil {
		return BackupInfo{}, err
	}
	m, err := decodeManifest(b)
	if err != nil {
		return BackupInfo{}, fmt.Errorf("backup %s: %w", o.From, err)
	}
	if err := clearHalf(fs, o.Dir); err != nil {
		return BackupInfo{}, err
	}
	h, err := LockHome(fs, o.Dir, o.NodeID)
	if err != nil {
		return BackupInfo{}, err
	}
	if h.IsNew() {
		err = h.restore(ctx, &o, m)
	} else {
		err = core.E(core.Exists, "data directory %s belongs to node %q of cluster %s already", o.Dir, h.nodeID, h.clusterID)
	}
	return m.info(), errors.Join(err, h.Close())
}

// clearHalf empties a directory in which an earlier Restore did not come to its end.
func clearHalf(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil || !slices.Contains(names, restoringName) || slices.Contains(names, metaName) {
		return ignoreMissing(err)
	}
	for _, name := range []string{indexName, logName, raftName, restoringName} { // the mark last
		if err := fs.RemoveAll(fs.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return vfs.SyncDir(fs, dir)
}

func (h *Home) restore(ctx context.Context, o *RestoreOptions, m *manifest) error {
	fs := h.fs
	if err := vfs.WriteFile(fs, fs.PathJoin(h.dir, restoringName), nil); err != nil {
		return err
	}
	if err := h.copyIn(ctx, o.From, m); err != nil {
		return err
	}
	if err := h.beAlone(m, o.First); err != nil {
		return err
	}
	for _, sub := range []string{indexName, logName, raftName, ""} {
		if err := vfs.SyncDir(fs, fs.PathJoin(h.dir, sub)); err != nil {
			return err
		}
	}
	if err := h.Found(o.ClusterID); err != nil {
		return err
	}
	if err := fs.Remove(fs.PathJoin(h.dir, restoringName)); err != nil {
		return err
	}
	return vfs.SyncDir(fs, h.dir)
}

// copyIn copies the backup's files, and checks the copies.
func (h *Home) copyIn(ctx context.Context, from string, m *manifest) error {
	fs := h.fs
	one := func(sub, name string, check func(path string) error) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		path := fs.PathJoin(h.dir, sub, name)
		if err := vfs.CopyFile(fs, fs.PathJoin(from, sub, name), path); err != nil {
			return fmt.Errorf("backup %s: %w", from, err)
		}
		if err := check(path); err != nil {
			return fmt.Errorf("backup %s is damaged: %w", from, err)
		}
		return nil
	}
	for _, sub := range []string{indexName, logName, raftName} {
		if err := fs.MkdirAll(fs.PathJoin(h.dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, f := range m.files {
		if err := one(indexName, f.name, func(path string) error { _, err := f.check(fs, path)(); return err }); err != nil {
			return err
		}
	}
	for _, p := range m.segments {
		name, _ := commitlog.SegmentName(p.Base)
		err := one(logName, name, func(path string) error { _, _, _, err := commitlog.CheckPortion(fs, path, p); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// beAlone makes the node of the restored directory the only one that decides. That goes
// by the log too, behind the backup's entries and in a term of its own: who joins and
// replays the log finds the members of then, and the end of their time.
func (h *Home) beAlone(m *manifest, first func(indexDir string) ([]core.Command, error)) error {
	var commands []core.Command
	if first != nil {
		var err error
		if commands, err = first(h.IndexDir()); err != nil {
			return err
		}
	}
	conf := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{
		ID: raft.ServerID(h.nodeID), Address: raft.ServerAddress("node-" + h.nodeID),
	}}})
	term := m.snap.term + 1
	log, err := commitlog.Open(commitlog.Options{FS: h.fs, Dir: h.fs.PathJoin(h.dir, logName), CacheBytes: -1, Durable: m.snap.index})
	if err != nil {
		return err
	}
	entries := []commitlog.Entry{{Index: m.snap.index + 1, Term: term, Type: uint8(raft.LogConfiguration), Data: conf}}
	at, err := lastTime(log)
	if len(commands) > 0 {
		data := core.AppendEntryHeader(nil, max(at, m.made))
		for i := range commands {
			data = core.AppendCommand(data, &commands[i])
		}
		entries = append(entries, commitlog.Entry{Index: m.snap.index + 2, Term: term, Type: uint8(raft.LogCommand), Data: data})
	}
	if err == nil {
		err = log.Append(entries)
	}
	if err = errors.Join(err, log.Close()); err != nil {
		return err
	}
	dir := h.fs.PathJoin(h.dir, raftName)
	snap := m.snap
	snap.confIndex, snap.conf = snap.index, conf
	if err := vfs.WriteFile(h.fs, h.fs.PathJoin(dir, snapshotName), snap.encode()); err != nil {
		return err
	}
	vote, err := openStable(h.fs, dir, true, func(err error) error { return err }, &stallWatch{})
	if err != nil {
		return err
	}
	return errors.Join(vote.SetUint64([]byte(keyTerm), uint64(term)), vote.close())
}
