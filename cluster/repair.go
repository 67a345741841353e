package cluster

import (
	"context"
	"errors"
	"slices"

	"github.com/hashicorp/raft"

	"polylog/cluster/peer"
	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
)

// A sealed segment that the disk has damaged is fetched from another node: the bytes are
// the same on all that hold its entries. That is safe where its entries are known: its
// table says what they are, or all of them are applied, so that they are the same
// everywhere. Where it is neither, or no node can give it, this node does not vote: it
// does not start.

// repairSegment fetches the segment that d is about and gives the file that can take its
// place. open opens a stream of the service "files" to a node.
func (n *Node) repairSegment(ctx context.Context, d *commitlog.Damage, peers []string, open func(ctx context.Context, id string) (core.Stream, error)) (path string, err error) {
	if d.Bytes == 0 && d.Next-1 > n.machine.Durable() {
		return "", core.E(core.Corrupt, "its table is lost too, and its last entries may be in this copy only")
	}
	dir := n.o.FS.PathJoin(n.o.Dir, logName)
	_, staged := commitlog.SegmentName(d.Base)
	path = n.o.FS.PathJoin(dir, staged)
	err = core.E(core.Unavailable, "there is no other node")
	for _, id := range peers {
		if err = n.segmentFrom(ctx, d.Portion, id, path, open); err == nil {
			return path, vfs.SyncDir(n.o.FS, dir)
		}
		err = core.E(core.KindOf(err), "node %s: %v", id, err)
	}
	return "", err
}

func (n *Node) segmentFrom(ctx context.Context, want commitlog.Portion, id, path string, open func(ctx context.Context, id string) (core.Stream, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx, id)
	if err != nil {
		return err
	}
	f := fetcher{fs: n.o.FS, dir: n.o.FS.PathDir(path), stream: s, received: &n.catchUp.received, whole: map[string]terms{}}
	_, err = f.segment(want, path)
	return err
}

// others are the other nodes of a configuration.
func (n *Node) others(servers []raft.Server) (ids []string) {
	for _, s := range servers {
		if string(s.ID) != n.o.NodeID {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// openLog opens the log. Sealed segments that it finds damaged are repaired first, from
// the nodes of raft's snapshot: raft does not run yet.
func (n *Node) openLog(o commitlog.Options, snap *snapshot) error {
	var before commitlog.Portion
	for {
		var err error
		if n.log, err = commitlog.Open(o); err == nil {
			return nil
		}
		d, ok := errors.AsType[*commitlog.Damage](err)
		if !ok || snap == nil || d.Portion == before {
			return err
		}
		before = d.Portion // once more would lead nowhere
		conf, refused := decodeConfiguration(snap.conf)
		if refused == nil && len(n.others(conf.Servers)) == 0 {
			return err
		}
		if refused == nil {
			refused = n.repairBeforeStart(d, conf.Servers)
		}
		if refused != nil {
			return core.E(core.Corrupt, "%v; not repaired from another node, so this node must not vote: %v", err, refused)
		}
	}
}

func (n *Node) repairBeforeStart(d *commitlog.Damage, servers []raft.Server) error {
	n.o.Logger.Warn("a segment of the log is damaged, fetching it from another node", "err", d.Err)
	// It calls and is not called: nobody must take this node for one that is there.
	network := peer.New(peer.Options{ClusterID: n.home.clusterID, NodeID: n.o.NodeID, Advertise: n.advertised(), TLS: n.o.TLS, Logger: n.o.Logger})
	ctx, cancel := context.WithTimeout(context.Background(), n.o.RepairTimeout)
	defer cancel()
	var path string
	err := retry(ctx, n.catchUp.first, n.catchUp.limit, func() (err error) {
		path, err = n.repairSegment(ctx, d, n.others(servers), func(ctx context.Context, id string) (core.Stream, error) {
			i := slices.IndexFunc(servers, func(s raft.Server) bool { return string(s.ID) == id })
			return network.Open(ctx, id, string(servers[i].Address), filesService)
		})
		return err
	})
	if err = errors.Join(err, network.Close()); err != nil {
		return err
	}
	fs := n.o.FS
	name, _ := commitlog.SegmentName(d.Base)
	dir := fs.PathJoin(n.o.Dir, logName)
	if err := errors.Join(fs.Rename(path, fs.PathJoin(dir, name)), vfs.SyncDir(fs, dir)); err != nil {
		return err
	}
	n.repaired.Add(1)
	n.o.Logger.Warn("a damaged segment of the log was replaced by another node's copy", "segment", name)
	return nil
}
