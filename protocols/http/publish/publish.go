// Package publish spreads the messages of a request over the partitions of a topic, or puts them
// into a queue, in as few batches as may be, and waits until all are committed. Which message a
// result belongs to is known by its place in the request.
package publish

import (
	"context"
	"sync"

	"polylog/core"
	"polylog/router"
)

// Destination is where messages go: a topic's partitions, or one queue.
type Destination struct {
	Queues   []core.QueueID
	MaxBytes int // of a batch
	Codec    int
	Topic    *router.TopicConfig // nil: a queue
}

// codecs are those of compression.type under which the broker compresses.
var codecs = map[string]int{"gzip": core.CodecGzip, "snappy": core.CodecSnappy, "lz4": core.CodecLZ4, "zstd": core.CodecZstd}

// To is a topic as a destination.
func To(t *router.Topic) Destination {
	return Destination{Queues: t.Partitions, MaxBytes: t.Config.MaxMessageBytes, Codec: codecs[t.Config.CompressionType], Topic: &t.Config}
}

// Check is why a message cannot be taken, or nil. A partition below 0 is any; at is the message's
// time and now the broker's, in ms.
func (d *Destination) Check(partition int32, key []byte, at, now int64) error {
	switch {
	case int(partition) >= len(d.Queues):
		return core.E(core.NotFound, "there is no partition %d, only %d", partition, len(d.Queues))
	case d.Topic == nil:
		return nil
	case d.Topic.Compact && key == nil:
		return core.E(core.Invalid, "a compacted topic takes no message without a key")
	case !d.Topic.LogAppendTime && (at-now > d.Topic.TimestampAfterMaxMS || now-at > d.Topic.TimestampBeforeMaxMS):
		return core.E(core.Invalid, "timestamp %d is too far from the broker's clock, which is at %d", at, now)
	}
	return nil
}

// Partition is where a message belongs that says no partition; turn chooses for those without a key.
func (d *Destination) Partition(key []byte, turn uint32) int32 {
	if key != nil {
		return int32(core.PartitionOf(key, len(d.Queues)))
	}
	return int32(turn % uint32(len(d.Queues)))
}

// Batch is what goes to one partition in one piece.
type Batch struct {
	Partition int32
	Messages  []int // which of the request's
	Result    router.PublishResult

	builder core.BatchBuilder
}

// Build is the batch as it is stored.
func (b *Batch) Build(d *Destination) ([]byte, error) {
	return b.builder.Build(nil, core.BatchOptions{Codec: d.Codec, Producer: core.Nobody})
}

// Batches are those of a request.
type Batches struct {
	All []*Batch

	d    *Destination
	open map[int32]*Batch // by partition
}

// NewBatches begins a request's.
func (d *Destination) NewBatches() *Batches { return &Batches{d: d, open: map[int32]*Batch{}} }

// Add puts message number i of the request into a batch of its partition. size is an upper bound
// of what it takes in there, in bytes; write adds it as one record.
func (bs *Batches) Add(i int, partition int32, size int, write func(*core.BatchBuilder)) {
	b := bs.open[partition]
	if b == nil || b.builder.Size()+size > bs.d.MaxBytes {
		b = &Batch{Partition: partition, Result: router.PublishResult{Offset: -1}}
		bs.All, bs.open[partition] = append(bs.All, b), b
	}
	write(&b.builder)
	b.Messages = append(b.Messages, i)
}

// Send publishes the batches and waits for their results. What has none when ctx ends may be
// stored, or not: its error is of kind Uncertain.
func (bs *Batches) Send(ctx context.Context, r *router.Router, p router.Principal) {
	var mu sync.Mutex // guards the batches' results, left and late
	left, late := len(bs.All), false
	all := make(chan struct{})
	done := func(b *Batch, r router.PublishResult) {
		mu.Lock()
		defer mu.Unlock()
		if !late {
			b.Result = r
		}
		if left--; left == 0 {
			close(all)
		}
	}
	for _, b := range bs.All {
		data, err := b.Build(bs.d)
		if err != nil {
			done(b, router.PublishResult{Offset: -1, Err: err})
			continue
		}
		r.PublishChecked(p, nil, bs.d.Queues[b.Partition], data, func(r router.PublishResult) { done(b, r) })
	}
	if len(bs.All) == 0 {
		return
	}
	select {
	case <-all:
	case <-ctx.Done():
		mu.Lock()
		defer mu.Unlock()
		late = left > 0
		for _, b := range bs.All {
			if late && b.Result.Err == nil && b.Result.Offset < 0 {
				b.Result.Err = core.E(core.Uncertain, "it was not confirmed in time: it may be stored, or not")
			}
		}
	}
}
