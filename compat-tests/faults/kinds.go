package main

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"polylog/compat/faults/disk"
	"polylog/compat/faults/netsim"
	"polylog/compat/harness"
)

// What a fault of a minority may cost: writes go on after so long. A leader that stops in good
// order hands over first; a node whose disk hangs notices that itself only after its own limit.
const (
	writeGap     = 6 * time.Second
	writeGapStop = 1 * time.Second
	writeGapHang = 15 * time.Second
)

var (
	short = [2]time.Duration{0, 2 * time.Second}
	long  = [2]time.Duration{2 * time.Second, 9 * time.Second}
)

// kinds are all kinds of faults; the weights follow what breaks clusters in practice.
var kinds = []kind{
	{name: "kill", weight: 18, nodes: 1, limit: writeGap, hold: short, do: kill},
	{name: "kill-all", weight: 6, nodes: 1, all: true, hold: short, do: killAll},
	{name: "stop", weight: 5, nodes: 1, limit: writeGapStop, hold: short, do: terminate},
	{name: "pause", weight: 15, nodes: 1, limit: writeGap, hold: long, do: suspend},
	{name: "cut", weight: 9, nodes: 3, limit: writeGap, hold: long, do: cut},
	{name: "cut-out", weight: 5, nodes: 3, limit: writeGap, hold: long, do: cutOut},
	{name: "cut-in", weight: 5, nodes: 3, limit: writeGap, hold: long, do: cutIn},
	{name: "bridge", weight: 4, nodes: 3, limit: writeGap, hold: long, do: bridge},
	{name: "delay", weight: 3, nodes: 3, limit: writeGap, hold: long, do: delay},
	{name: "loss", weight: 3, nodes: 3, limit: writeGap, hold: long, do: lose},
	{name: "slow-disk", weight: 3, nodes: 1, limit: writeGap, hold: long, do: slowDisk},
	{name: "hang", weight: 2, nodes: 1, limit: writeGapHang, excused: true, hold: long, do: hang},
	{name: "eio", weight: 4, nodes: 1, limit: writeGap, excused: true, hold: short, do: failSync},
	{name: "full", weight: 2, nodes: 1, limit: writeGap, excused: true, hold: long, do: full},
	{name: "power", weight: 8, nodes: 1, limit: writeGap, hold: short, do: power},
	{name: "flip", weight: 4, nodes: 3, limit: writeGap, hold: short, do: flip},
	{name: "replace", weight: 3, nodes: 3, limit: writeGap, fetch: true, hold: short, do: replace},
	{name: "clock", weight: 4, nodes: 1, limit: writeGap, hold: short, do: clock},
	{name: "power-all", weight: 3, nodes: 1, all: true, hold: short, do: powerAll},
}

func kill(_ *run, n *node, _ *rand.Rand) (func() error, error) {
	n.kill()
	return func() error { n.up(); return nil }, nil
}

func killAll(r *run, _ *node, _ *rand.Rand) (func() error, error) {
	for _, n := range r.nodes {
		n.kill()
	}
	return func() error {
		for _, n := range r.nodes {
			n.up()
		}
		return nil
	}, nil
}

func terminate(_ *run, n *node, _ *rand.Rand) (func() error, error) {
	err := n.terminate()
	return func() error { n.up(); return nil }, err
}

// suspend stops the process with SIGSTOP: it does not know how much time passes, and goes on with
// what it was about to do.
func suspend(_ *run, n *node, _ *rand.Rand) (func() error, error) {
	if !n.signal(syscall.SIGSTOP) {
		return nil, errors.New("nothing to stop")
	}
	return func() error { n.signal(syscall.SIGCONT); return nil }, nil
}

// links sets both or one direction of all links of a node: to the others, and by chance to the
// clients too.
func links(r *run, n *node, rng *rand.Rand, out, in netsim.Link) func() error {
	clients := rng.IntN(2) == 0
	for h := range len(r.nodes) + 1 {
		if h != n.host && (h != 0 || clients) {
			r.net.Set(n.host, h, out)
			r.net.Set(h, n.host, in)
		}
	}
	r.history.event("links", "node", n.id, "clients", clients)
	return func() error { r.net.Heal(); return nil }
}

func cut(r *run, n *node, rng *rand.Rand) (func() error, error) {
	return links(r, n, rng, netsim.Link{Cut: true}, netsim.Link{Cut: true}), nil
}

func cutOut(r *run, n *node, rng *rand.Rand) (func() error, error) {
	return links(r, n, rng, netsim.Link{Cut: true}, netsim.Link{}), nil
}

func cutIn(r *run, n *node, rng *rand.Rand) (func() error, error) {
	return links(r, n, rng, netsim.Link{}, netsim.Link{Cut: true}), nil
}

// bridge cuts one pair of nodes, whom the others still see both.
func bridge(r *run, n *node, rng *rand.Rand) (func() error, error) {
	other := r.other(n, rng)
	r.net.Set(n.host, other.host, netsim.Link{Cut: true})
	r.net.Set(other.host, n.host, netsim.Link{Cut: true})
	return func() error { r.net.Heal(); return nil }, nil
}

func delay(r *run, n *node, rng *rand.Rand) (func() error, error) {
	l := netsim.Link{Delay: time.Duration(20+rng.IntN(180)) * time.Millisecond, Vary: time.Duration(1+rng.IntN(50)) * time.Millisecond}
	return links(r, n, rng, l, l), nil
}

func lose(r *run, n *node, rng *rand.Rand) (func() error, error) {
	l := netsim.Link{Loss: 0.05 + 0.2*rng.Float64()}
	return links(r, n, rng, l, l), nil
}

func onDisk(n *node, f disk.Faults) (func() error, error) {
	n.disk.Set(f)
	return func() error { n.disk.Set(disk.Faults{}); return nil }, nil
}

func slowDisk(_ *run, n *node, rng *rand.Rand) (func() error, error) {
	return onDisk(n, disk.Faults{SyncDelay: time.Duration(20+rng.IntN(400)) * time.Millisecond, WriteDelay: time.Duration(rng.IntN(20)) * time.Millisecond})
}

// hang holds up the disk, by chance for longer than a process may put up with.
func hang(r *run, n *node, rng *rand.Rand) (func() error, error) {
	heal, err := onDisk(n, disk.Faults{Hang: true})
	if rng.IntN(2) == 0 {
		harness.Pause(r.ctx, 9*time.Second)
	}
	return heal, err
}

// failSync has the disk fail all flushes. The data of those that failed is lost, and after the heal
// there is a power cut, by chance: what the disk never had must not be relied on.
func failSync(_ *run, n *node, rng *rand.Rand) (func() error, error) {
	n.disk.Set(disk.Faults{FailSync: true})
	cut := rng.IntN(2) == 0
	return func() error {
		n.disk.Set(disk.Faults{})
		if !cut {
			return nil
		}
		return crash(n, rng, true)
	}, nil
}

func full(_ *run, n *node, rng *rand.Rand) (func() error, error) {
	if err := n.fill(int64(rng.IntN(1 << 20))); err != nil {
		return nil, err
	}
	return n.empty, nil
}

// crash is a power cut of one node.
func crash(n *node, rng *rand.Rand, start bool) error {
	n.kill()
	files, names, err := n.disk.Crash(rng, rng.IntN(2) == 0)
	_, e := n.boot()
	err = errors.Join(err, e)
	n.history.event("power cut", "node", n.id, "files", files, "names", names)
	if start {
		n.up()
	}
	return err
}

// power cuts the power of one node: what it did not flush is lost.
func power(_ *run, n *node, rng *rand.Rand) (func() error, error) {
	err := crash(n, rng, false)
	return func() error { n.up(); return nil }, err
}

// powerAll cuts the power of all nodes.
func powerAll(r *run, _ *node, rng *rand.Rand) (func() error, error) {
	var err error
	for _, n := range r.nodes {
		n.kill()
	}
	for _, n := range r.nodes {
		err = errors.Join(err, crash(n, rng, false))
	}
	return func() error {
		for _, n := range r.nodes {
			n.up()
		}
		return nil
	}, err
}

// clock starts a node again with a clock that is up to 25 s off, so that two are never
// further apart than a cluster admits. It stays so until the next fault of this kind.
func clock(_ *run, n *node, rng *rand.Rand) (func() error, error) {
	n.kill()
	off := time.Duration(rng.IntN(100)-50) * time.Second / 2
	n.polylog.Env = []string{"POLYLOG_CLOCK_OFFSET=" + off.String()}
	n.history.event("clock", "node", n.id, "off", off.String())
	return func() error { n.up(); return nil }, nil
}
