package cluster

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// The layout of a data directory. LOCK is held while a process uses the directory;
// meta says whose it is, in six lines of text:
//
//	polylog data directory
//	format 2
//	cluster <22 characters, a UUID in URL-safe base64>
//	node <id>
//	instance <22 characters, of the directory: another one for each that is made>
//	origin <founded or joined: whether its node began a cluster or was to join one>
//
// Format 1 ends after the node; such a directory was founded.
const (
	lockName   = "LOCK"
	metaName   = "meta"
	logName    = "log"
	raftName   = "raft"
	metaTitle  = "polylog data directory"
	dataFormat = 2

	originFounded = "founded"
	originJoined  = "joined"
)

// Home is a data directory that this process has locked and whose identity is
// known. Everything else in the directory may be opened only while it is held.
type Home struct {
	fs        vfs.FS
	dir       string
	clusterID string // empty: the directory is new
	nodeID    string
	instance  string
	joined    bool
	lock      io.Closer
}

// OpenHome locks the data directory dir of the node nodeID, and makes it when it is
// missing or empty: a cluster of its own. An empty nodeID takes the directory's own, or
// "1" for a new one. It refuses what LockHome refuses.
func OpenHome(fs vfs.FS, dir, nodeID string) (*Home, error) {
	return OpenHomeIn(fs, dir, nodeID, "")
}

// OpenHomeIn is OpenHome for a node of the cluster clusterID: a new directory belongs to
// that, and one of another cluster is refused. Empty makes a new directory the first of
// a new cluster.
func OpenHomeIn(fs vfs.FS, dir, nodeID, clusterID string) (*Home, error) {
	h, err := LockHome(fs, dir, nodeID)
	if err != nil {
		return nil, err
	}
	switch {
	case h.IsNew():
		err = h.Found(clusterID)
	case clusterID != "" && clusterID != h.clusterID:
		err = core.E(core.Conflict, "data directory %s belongs to cluster %s, not to cluster %s", h.dir, h.clusterID, clusterID)
	}
	if err != nil {
		return nil, errors.Join(err, h.lock.Close())
	}
	return h, nil
}

// homePerm is that of new data directories and backups: what is in them, secrets of webhooks too,
// is its owner's alone.
const homePerm = 0o700

// LockHome locks the data directory dir of the node nodeID and reads whose it is. A new
// one belongs to nobody until Found or Join is called.
//
// It refuses, with one clear line and without touching anything, a directory that
// another process uses, that holds other files than ours, that belongs to another
// node or that a newer version has written.
func LockHome(fs vfs.FS, dir, nodeID string) (*Home, error) {
	if err := checkNodeID(nodeID); err != nil {
		return nil, err
	}
	names, err := fs.List(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := fs.MkdirAll(dir, homePerm); err != nil {
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
	err = h.identify(nodeID)
	if err == nil && !h.IsNew() {
		err = h.takeOver()
	}
	if err != nil {
		return nil, errors.Join(err, h.lock.Close())
	}
	return h, nil
}

// identify reads meta, or thinks of an instance where there is none yet.
func (h *Home) identify(nodeID string) error {
	b, err := vfs.ReadFile(h.fs, h.fs.PathJoin(h.dir, metaName))
	if errors.Is(err, os.ErrNotExist) {
		h.nodeID, h.instance = cmp.Or(nodeID, "1"), newUUID()
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

// IsNew reports whether the directory belongs to no node yet.
func (h *Home) IsNew() bool { return h.clusterID == "" }

// IsEmpty reports whether nothing was ever written but, perhaps, whose the directory is.
func (h *Home) IsEmpty() (bool, error) {
	snapshots, err := openSnapshots(h.fs, h.fs.PathJoin(h.dir, raftName))
	if err != nil {
		return false, err
	}
	head, err := commitlog.Head(h.fs, h.fs.PathJoin(h.dir, logName))
	return head == 0 && snapshots.latest.Load() == nil, err
}

// Found makes a new directory that of a cluster's first node. An empty clusterID stands
// for a new cluster.
func (h *Home) Found(clusterID string) error {
	return h.settle(cmp.Or(clusterID, newUUID()), false)
}

// Join makes a new directory that of a node which the cluster clusterID will add.
func (h *Home) Join(clusterID string) error {
	if !validUUID(clusterID) {
		return core.E(core.Invalid, "cluster id %.40q: want 22 characters of base64", clusterID)
	}
	return h.settle(clusterID, true)
}

func (h *Home) settle(clusterID string, joined bool) error {
	if !h.IsNew() {
		return core.E(core.Conflict, "data directory %s belongs to node %q of cluster %s already", h.dir, h.nodeID, h.clusterID)
	}
	is := *h
	is.clusterID, is.joined = clusterID, joined
	if err := vfs.WriteFile(h.fs, h.fs.PathJoin(h.dir, metaName), is.encodeMeta()); err != nil {
		return fmt.Errorf("write identity of data directory %s: %w", h.dir, err)
	}
	*h = is
	return nil
}

func (h *Home) encodeMeta() []byte {
	origin := originFounded
	if h.joined {
		origin = originJoined
	}
	return fmt.Appendf(nil, "%s\nformat %d\ncluster %s\nnode %s\ninstance %s\norigin %s\n",
		metaTitle, dataFormat, h.clusterID, h.nodeID, h.instance, origin)
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
	if version < 1 || version > dataFormat {
		return core.E(core.Unsupported, "data directory %s has format %d; this version of polylog knows formats up to %d", h.dir, version, dataFormat)
	}
	var origin string
	fields := []struct {
		name string
		to   *string
	}{{"cluster", &h.clusterID}, {"node", &h.nodeID}, {"instance", &h.instance}, {"origin", &origin}}
	if version == 1 {
		fields = fields[:2]
		origin = originFounded
	}
	for _, f := range fields {
		line, next, whole := strings.Cut(rest, "\n")
		rest = next
		var ok bool
		if *f.to, ok = strings.CutPrefix(line, f.name+" "); !ok || !whole || *f.to == "" {
			return core.E(core.Corrupt, "identity of data directory %s: line %.40q, want the %s", h.dir, line, f.name)
		}
	}
	if version == 1 { // as good as random: no other directory of this node is that old
		sum := sha256.Sum256([]byte(h.clusterID + h.nodeID))
		h.instance = base64.RawURLEncoding.EncodeToString(sum[:16])
	}
	h.joined = origin == originJoined
	if rest != "" || !validUUID(h.clusterID) || !validUUID(h.instance) || checkNodeID(h.nodeID) != nil || !h.joined && origin != originFounded {
		return core.E(core.Corrupt, "identity of data directory %s: bad id, or more lines than there should be", h.dir)
	}
	return nil
}

// ClusterID is the cluster that the directory belongs to.
func (h *Home) ClusterID() string { return h.clusterID }

// NodeID is the node that the directory belongs to.
func (h *Home) NodeID() string { return h.nodeID }

// Instance names the data directory itself: the same node id with another instance is
// another node, or the same one with its data lost.
func (h *Home) Instance() string { return h.instance }

// Joined reports whether the node was to join a cluster, instead of founding one.
func (h *Home) Joined() bool { return h.joined }

// Close releases the lock.
func (h *Home) Close() error { return h.lock.Close() }

// newUUID is a random UUID in Kafka's text form. Like Kafka's own, it never
// starts with a dash, which command lines would take for a flag.
func newUUID() string {
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

// validUUID reports whether id has the form of what newUUID makes.
func validUUID(id string) bool {
	b, err := base64.RawURLEncoding.DecodeString(id)
	return err == nil && len(b) == 16
}

func checkNodeID(id string) error {
	if len(id) > 255 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return core.E(core.Invalid, "node id %.40q: want up to 255 bytes without spaces and control characters", id)
	}
	return nil
}
