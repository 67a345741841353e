// Package index holds what Apply makes of the CommitLog, as data structures over
// one store: light queues that map dense offsets to references (queue.go), look-up
// by time and by log index in them (search.go), and an ordered key-value space
// (kv.go). It knows references and keys, neither protocols nor what a key means.
//
// # Overlay and base
//
// Apply works on an overlay in memory; the base is one Pebble store without a WAL,
// because the raft log is the WAL:
//
//	Update ──► overlay    tails of queues, a copy-on-write map of keys
//	              │ Freeze
//	readers ─►  frozen    the same, immutable, while Write stores it
//	              │ Checkpoint.Write: one batch, one flush
//	            base      Pebble, seen through one snapshot per checkpoint
//
// A read asks the three from top to bottom. A queue without a tail costs no memory:
// its head and runs come from the base.
//
// What it promises:
//   - One Update is seen whole or not at all, and only after it ended without an
//     error; one that fails leaves no trace.
//   - The base always equals the state at exactly one applied index, also after a
//     crash at any moment: a checkpoint is one atomic batch, and a batch never
//     spans two of Pebble's flushes. Open returns to it; the log is replayed from
//     Applied()+1 on.
//   - Dropping the frozen overlay and showing the base that contains it is one step
//     for every reader.
//   - No lock is held while Pebble is read or written.
//   - Hash depends on the logical state alone, never on when checkpoints happened.
//
// # Locks
//
// Store.mu guards what a reader captures (which overlay, which frozen one, which
// base, and the published half of the overlay) and is held for memory accesses only.
// Checkpoint.Write, SaveTo and Close take Store.writing first, then Store.mu. Everything
// else in the overlay belongs to the goroutine that calls Update and Freeze.
//
// # More indexes
//
// Every index is a prefix of the one key space (keys.go; docs/format-index.md), a
// part of the overlay with a staged and a published half, methods on Tx and on
// reader, and a function that adds its live content to the checkpoint's batch
// (checkpoint.go). The time, key and transaction indexes join that way, each in a
// file of its own: a map in overlay beside keys, its publication in
// Store.commit, its lines in Checkpoint.batch.
package index
