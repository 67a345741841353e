package index

import (
	"github.com/tidwall/btree"

	"polylog/core"
)

// kvMap is an ordered map of keys; a nil value is a tombstone. Its Copy is O(1):
// the two share nodes until one of them writes.
type kvMap = btree.Map[string, []byte]

// overlay is what Updates changed since a Freeze. Published fields are guarded by
// Store.mu while the overlay is active and immutable once it is frozen; staged
// fields belong to the writer.
type overlay struct {
	tails  map[core.QueueID]*tail // published, but for what tail says
	keys   *kvMap                 // published
	stable *kvMap                 // published: a copy of keys that does not change; nil when there is none
	snaps  map[*Snapshot]struct{} // published: open snapshots that need pre-images
	meta   meta                   // published

	buckets map[uint64]int64 // staged: changed live-run counters, absolute values
	bytes   int64            // staged: estimate of the memory held
}

func newOverlay(m meta) *overlay {
	return &overlay{
		tails:   make(map[core.QueueID]*tail),
		keys:    new(kvMap),
		snaps:   make(map[*Snapshot]struct{}),
		buckets: make(map[uint64]int64),
		meta:    m,
	}
}

// stableKeys is keys as they are now, for ever. From then on a write copies the
// nodes that it changes, once each, so copies are shared while nothing changes. The
// caller holds Store.mu for writing.
func (o *overlay) stableKeys() *kvMap {
	if o.stable == nil {
		o.stable = o.keys.Copy()
	}
	return o.stable
}

// state is the published state of q; nil when the overlay knows nothing of it, or
// is nil.
func (o *overlay) state(q core.QueueID) *queueState {
	if o == nil {
		return nil
	}
	if t := o.tails[q]; t != nil && t.pub.kind != absent {
		return &t.pub
	}
	return nil
}

// tail is one queue in an overlay.
type tail struct {
	q   core.QueueID
	pub queueState  // published
	cur *queueState // staged: the state in the current Update; nil when untouched by it
}

type queueKind uint8

const (
	absent  queueKind = iota // ask the layer below
	live                     // exists
	dropped                  // does not exist, whatever the layers below say
)

// queueState is a queue as of an overlay. It is complete but for the runs that the
// layers below hold.
type queueState struct {
	headRecord
	kind queueKind
	// lower says that the layers below have the queue, perhaps an earlier one of
	// the same id; wipe that nothing of what they have is alive.
	lower, wipe bool
	// below is where the runs of this layer begin: those before it, from first on,
	// are in the layers below.
	below core.Offset
	// lowerFirst and lowerPeak are first and peak as the layers below have them.
	lowerFirst core.Offset
	lowerPeak  int64
	// runs are the live runs of this layer, contiguous up to End. Elements are
	// never changed; appending beyond what readers captured is fine.
	runs []core.Run
}

// onTopOf makes the state of a queue that the layer below has as h.
func (s *queueState) onTopOf(h headRecord) {
	*s = queueState{
		headRecord: h, kind: live, lower: true,
		below: h.End, lowerFirst: h.first, lowerPeak: h.peak,
	}
}

// Estimates of the memory behind one entry, in bytes.
const (
	runCost  = 40
	tailCost = 320 // tail, its share of the map
	pairCost = 100 // key and value headers, share of a node
)

func (s *queueState) cost() int64 {
	if s.kind == absent {
		return 0
	}
	return tailCost + int64(cap(s.runs))*runCost
}

func pairBytes(key string, value []byte) int64 {
	return pairCost + int64(len(key)+len(value))
}
