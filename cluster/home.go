package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"polylog/core"
	"polylog/core/vfs"
)

// The layout of a data directory. LOCK is held while a process uses the directory;
// meta says whose it is, in four lines of text:
//
//	polylog data directory
//	format 1
//	cluster <22 characters, a UUID in URL-safe base64>
//	node <id>
const (
	lockName   = "LOCK"
	metaName   = "meta"
	logName    = "log"
	raftName   = "raft"
	metaTitle  = "polylog data directory"
	dataFormat = 1
)

// Home is a data directory that this process has locked and whose identity is
// known. Everything else in the directory may be opened only while it is held.
type Home struct {
	fs        vfs.FS
	dir       string
	clusterID string
	nodeID    string
	lock      io.Closer
}

// OpenHome locks the data directory dir of the node nodeID, and makes it when it is
// missing or empty. An empty nodeID takes the directory's own, or "1" for a new one.
//
// It refuses, with one clear line and without touching anything, a directory that
// another process uses, that holds other files than ours, that belongs to another
// node or that a newer version has written.
func OpenHome(fs vfs.FS, dir, nodeID string) (*Home, error) {
	if err := checkNodeID(nodeID); err != nil {
		return nil, err
	}
	names, err := fs.List(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("create data directory %s: %w", dir, err)
		}
		if err := vfs.SyncDir(fs, fs.PathDir(dir)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("read data directory %s: %w", dir, err)
	}
	if !slices.Contains(names, metaName) {
		for _, name := range names {
			if name != lockName && name != metaName+".tmp" && name != "lost+found" {
				return nil, core.E(core.Conflict, "%s is not a polylog data directory: it has no %s file but holds %q", dir, metaName, name)
			}
		}
	}
	h := &Home{fs: fs, dir: dir}
	if h.lock, err = fs.Lock(fs.PathJoin(dir, lockName)); err != nil {
		// A process that holds the lock itself gets another error than EAGAIN.
		if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held") {
			return nil, core.E(core.Conflict, "data directory %s is in use by another polylog process", dir)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if err := h.identify(nodeID); err != nil {
		return nil, errors.Join(err, h.lock.Close())
	}
	return h, nil
}

// identify reads meta, or writes it where there is none yet.
func (h *Home) identify(nodeID string) error {
	name := h.fs.PathJoin(h.dir, metaName)
	b, err := vfs.ReadFile(h.fs, name)
	if errors.Is(err, os.ErrNotExist) {
		h.clusterID, h.nodeID = newClusterID(), nodeID
		if nodeID == "" {
			h.nodeID = "1"
		}
		if err := vfs.WriteFile(h.fs, name, h.encodeMeta()); err != nil {
			return fmt.Errorf("write identity of data directory %s: %w", h.dir, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read identity of data directory %s: %w", h.dir, err)
	}
	if err := h.decodeMeta(b); err != nil {
		return err
	}
	if nodeID != "" && nodeID != h.nodeID {
		return core.E(core.Conflict, "data directory %s belongs to node %q, not to node %q", h.dir, h.nodeID, nodeID)
	}
	return nil
}

func (h *Home) encodeMeta() []byte {
	return fmt.Appendf(nil, "%s\nformat %d\ncluster %s\nnode %s\n", metaTitle, dataFormat, h.clusterID, h.nodeID)
}

func (h *Home) decodeMeta(b []byte) error {
	title, rest, _ := strings.Cut(string(b), "\n")
	if title != metaTitle {
		return core.E(core.Conflict, "%s is not a polylog data directory: its %s file starts with %.40q", h.dir, metaName, title)
	}
	format, rest, _ := strings.Cut(rest, "\n")
	var version int
	if _, err := fmt.Sscanf(format, "format %d", &version); err != nil {
		return core.E(core.Corrupt, "identity of data directory %s: second line is %.40q, want a format number", h.dir, format)
	}
	if version != dataFormat {
		return core.E(core.Unsupported, "data directory %s has format %d; this version of polylog knows format %d", h.dir, version, dataFormat)
	}
	lines := strings.Split(rest, "\n")
	if len(lines) != 3 || lines[2] != "" {
		return core.E(core.Corrupt, "identity of data directory %s: %d lines, want 4", h.dir, len(lines)+1)
	}
	var okCluster, okNode bool
	h.clusterID, okCluster = strings.CutPrefix(lines[0], "cluster ")
	h.nodeID, okNode = strings.CutPrefix(lines[1], "node ")
	if !okCluster || !okNode || len(h.clusterID) != 22 || h.nodeID == "" || checkNodeID(h.nodeID) != nil {
		return core.E(core.Corrupt, "identity of data directory %s: bad cluster or node line", h.dir)
	}
	return nil
}

// ClusterID is the cluster that the directory belongs to.
func (h *Home) ClusterID() string { return h.clusterID }

// NodeID is the node that the directory belongs to.
func (h *Home) NodeID() string { return h.nodeID }

// Close releases the lock.
func (h *Home) Close() error { return h.lock.Close() }

// newClusterID is a random UUID in Kafka's text form. Like Kafka's own, it never
// starts with a dash, which command lines would take for a flag.
func newClusterID() string {
	for {
		var u [16]byte
		_, _ = rand.Read(u[:]) // never fails
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if id := base64.RawURLEncoding.EncodeToString(u[:]); id[0] != '-' {
			return id
		}
	}
}

func checkNodeID(id string) error {
	if len(id) > 255 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return core.E(core.Invalid, "node id %.40q: want up to 255 bytes without spaces and control characters", id)
	}
	return nil
}
