package core

// Ref points at messages in the CommitLog: the bytes [Pos, Pos+Len) of the data of
// the entry at Index hold one record batch, of which Count records from First on
// are meant. It is the same on every replica.
type Ref struct {
	Index LogIndex
	Pos   uint32 // bytes from the start of the entry's data
	Len   uint32 // bytes of the whole batch, header included
	First uint32 // first record of the batch that is meant, from 0
	Count uint32 // records meant, at least 1
}

// Run is a stretch of a light queue: Count consecutive offsets from Offset on are
// the records that the Ref means, in order.
//
// Count is measured in offsets: a batch whose records have gaps (compacted by its
// producer) spans lastOffsetDelta+1 offsets.
type Run struct {
	Offset  Offset
	MaxTime int64 // largest timestamp in the run, ms since the epoch
	Ref
}

// End is the first offset after the run.
func (r Run) End() Offset { return r.Offset + Offset(r.Count) }

// Checkpoint is a frozen state on its way to the disk.
type Checkpoint interface {
	// Write makes the state durable, atomically with its applied index.
	Write() error
	// Applied is the index of the last entry that the state contains.
	Applied() LogIndex
}
