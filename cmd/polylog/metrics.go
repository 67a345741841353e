package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"polylog/cluster"
	"polylog/core/vfs"
)

// newRegistry has the metrics of the process itself.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "polylog_build_info", Help: "Always 1; the labels say what runs.",
			ConstLabels: prometheus.Labels{"version": version, "revision": revision},
		}, func() float64 { return 1 }),
	)
	return r
}

// diskFree is the space left for the data directory, -1 where nobody knows.
func diskFree(fs vfs.FS, dir string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "polylog_disk_free_bytes", Help: "Space left on the disk that holds the data directory.",
	}, func() float64 {
		u, err := fs.GetDiskUsage(dir)
		if err != nil {
			return -1
		}
		return float64(u.AvailBytes)
	})
}

// nodeCollector turns a node's figures into metrics when they are asked for.
type nodeCollector struct{ node *cluster.Node }

// figure is one of them.
type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*cluster.Stats) float64
}

func raftFigure(kind prometheus.ValueType, name, help string, value func(*cluster.Stats) float64) figure {
	return figure{prometheus.NewDesc("polylog_"+name, help, nil, nil), kind, value}
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

var figures = []figure{
	raftFigure(prometheus.GaugeValue, "raft_term", "Current term, which is Kafka's leader epoch.", func(s *cluster.Stats) float64 { return float64(s.Term) }),
	raftFigure(prometheus.GaugeValue, "raft_leader", "1 while this node leads and is ready.", func(s *cluster.Stats) float64 { return flag(s.Leader) }),
	raftFigure(prometheus.CounterValue, "raft_leader_changes_total", "Changes of the leader that this node saw.", func(s *cluster.Stats) float64 { return float64(s.LeaderChanges) }),
	raftFigure(prometheus.GaugeValue, "raft_members", "Nodes of the cluster.", func(s *cluster.Stats) float64 { return float64(s.Members) }),
	raftFigure(prometheus.GaugeValue, "raft_voters", "Nodes of the cluster that have a vote.", func(s *cluster.Stats) float64 { return float64(s.Voters) }),
	raftFigure(prometheus.GaugeValue, "raft_voter", "1 while this node has a vote: 0 before it has caught up, and when it was removed.", func(s *cluster.Stats) float64 { return flag(s.Voter) }),
	raftFigure(prometheus.GaugeValue, "raft_committed_index", "Index of the last committed entry.", func(s *cluster.Stats) float64 { return float64(s.Committed) }),
	raftFigure(prometheus.GaugeValue, "raft_applied_index", "Index of the last applied entry.", func(s *cluster.Stats) float64 { return float64(s.Applied) }),
	raftFigure(prometheus.GaugeValue, "raft_snapshot_index", "Index of raft's last snapshot.", func(s *cluster.Stats) float64 { return float64(s.Snapshot) }),
	raftFigure(prometheus.GaugeValue, "index_durable_index", "Index of the last entry whose effects on the indexes are on disk.", func(s *cluster.Stats) float64 { return float64(s.Durable) }),
	raftFigure(prometheus.GaugeValue, "log_first_index", "Index of the log's first entry.", func(s *cluster.Stats) float64 { return float64(s.First) }),
	raftFigure(prometheus.GaugeValue, "log_last_index", "Index of the log's last entry.", func(s *cluster.Stats) float64 { return float64(s.Last) }),
	raftFigure(prometheus.GaugeValue, "log_bytes", "Bytes that the log has on disk, live or not.", func(s *cluster.Stats) float64 { return float64(s.LogBytes) }),
	raftFigure(prometheus.GaugeValue, "log_files", "Files of the log.", func(s *cluster.Stats) float64 { return float64(s.LogFiles) }),
	raftFigure(prometheus.CounterValue, "log_entries_written_total", "Entries written to the log.", func(s *cluster.Stats) float64 { return float64(s.StoredEntries) }),
	raftFigure(prometheus.CounterValue, "log_bytes_written_total", "Bytes of the entries written to the log.", func(s *cluster.Stats) float64 { return float64(s.StoredBytes) }),
	raftFigure(prometheus.CounterValue, "commands_proposed_total", "Commands proposed by this node.", func(s *cluster.Stats) float64 { return float64(s.Commands) }),
	raftFigure(prometheus.CounterValue, "command_groups_total", "Entries that proposed commands were grouped into.", func(s *cluster.Stats) float64 { return float64(s.Groups) }),
	raftFigure(prometheus.CounterValue, "commands_forwarded_total", "Commands of this node that the leader, another node, has answered.", func(s *cluster.Stats) float64 { return float64(s.Forwarded) }),
	raftFigure(prometheus.GaugeValue, "commands_waiting", "Commands not yet given to raft.", func(s *cluster.Stats) float64 { return float64(s.Waiting) }),
	raftFigure(prometheus.GaugeValue, "commands_waiting_bytes", "Bytes of the commands not yet given to raft.", func(s *cluster.Stats) float64 { return float64(s.WaitingBytes) }),
	raftFigure(prometheus.GaugeValue, "command_groups_in_flight", "Groups of commands that raft is at work on.", func(s *cluster.Stats) float64 { return float64(s.InFlight) }),
	raftFigure(prometheus.CounterValue, "index_checkpoints_total", "Checkpoints of the indexes.", func(s *cluster.Stats) float64 { return float64(s.Checkpoints) }),
	raftFigure(prometheus.CounterValue, "files_served_bytes_total", "Bytes of files that other nodes fetched from this one.", func(s *cluster.Stats) float64 { return float64(s.FilesServed) }),
	raftFigure(prometheus.CounterValue, "files_fetched_bytes_total", "Bytes of files that this node fetched from others.", func(s *cluster.Stats) float64 { return float64(s.FilesFetched) }),
	raftFigure(prometheus.GaugeValue, "catching_up", "1 while this node fetches the leader's state as files.", func(s *cluster.Stats) float64 {
		if s.CatchingUp {
			return 1
		}
		return 0
	}),
	raftFigure(prometheus.CounterValue, "scrub_rounds_total", "Readings of all sealed segments of the log.", func(s *cluster.Stats) float64 { return float64(s.ScrubRounds) }),
	raftFigure(prometheus.CounterValue, "scrub_bytes_total", "Bytes of sealed segments that were read and checked.", func(s *cluster.Stats) float64 { return float64(s.Scrubbed) }),
	raftFigure(prometheus.CounterValue, "segments_damaged_total", "Segments that were found damaged while the node ran.", func(s *cluster.Stats) float64 { return float64(s.Damages) }),
	raftFigure(prometheus.CounterValue, "segments_repaired_total", "Segments that were replaced by another node's copy.", func(s *cluster.Stats) float64 { return float64(s.Repaired) }),
	raftFigure(prometheus.GaugeValue, "segments_unrepaired", "Segments that are damaged and could not be repaired yet.", func(s *cluster.Stats) float64 { return float64(s.Unrepaired) }),
}

// Describe implements prometheus.Collector.
func (nodeCollector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range figures {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c nodeCollector) Collect(out chan<- prometheus.Metric) {
	s := c.node.Stats()
	for _, f := range figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(&s))
	}
}
