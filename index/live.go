package index

import (
	"encoding/binary"

	"github.com/tidwall/btree"

	"polylog/core"
	"polylog/core/wire"
)

// Which log entries do queues still need? Every live run counts in the bucket of
// its log index; FirstLive is the first index of the first bucket that counts.
//
//	base: 'b' | bucket u64 → uvarint runs, never 0

// bucketBits makes a bucket of 64 log indexes: what one live run holds back is 32 MiB at
// most, where entries are of the largest size, 512 KiB.
const bucketBits = 6

// liveRuns counts live runs per bucket; the writer's.
type liveRuns struct {
	counts btree.Map[uint64, int64] // only positive counts
}

func (l *liveRuns) get(bucket uint64) int64 {
	n, _ := l.counts.Get(bucket)
	return n
}

func (l *liveRuns) set(bucket uint64, n int64) {
	if n == 0 {
		l.counts.Delete(bucket)
		return
	}
	l.counts.Set(bucket, n)
}

// first is the first log index of the first bucket; 0 when nothing is live.
func (l *liveRuns) first() core.LogIndex {
	bucket, _, ok := l.counts.Min()
	if !ok {
		return 0
	}
	return max(core.LogIndex(bucket<<bucketBits), 1)
}

// liveDelta collects the changes of one Update. Runs of neighbouring indexes come
// together, so it keeps the last bucket at hand.
type liveDelta struct {
	bucket uint64
	n      int64
	others map[uint64]int64
}

func (d *liveDelta) add(i core.LogIndex, n int64) {
	bucket := uint64(i) >> bucketBits
	if bucket != d.bucket {
		d.flush()
		d.bucket = bucket
	}
	d.n += n
}

func (d *liveDelta) flush() {
	if d.n != 0 {
		d.others[d.bucket] += d.n
		d.n = 0
	}
}

func (d *liveDelta) reset() {
	d.n = 0
	clear(d.others)
}

func decodeBucket(key, value []byte) (bucket uint64, runs int64, err error) {
	r := wire.NewReader(value)
	runs = int64(r.Uvarint())
	if err := r.Close(); err != nil || len(key) != 9 || runs <= 0 {
		return 0, 0, core.E(core.Corrupt, "live-run counter %x: %d runs, %v", key, runs, err)
	}
	return binary.BigEndian.Uint64(key[1:]), runs, nil
}
