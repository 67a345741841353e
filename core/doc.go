// Package core is the vocabulary that every other package speaks: identifiers,
// references into the CommitLog, log entries and the commands in them, results,
// error kinds, and the storage form of messages (Kafka RecordBatch v2).
//
// It does no I/O, starts no goroutine, reads no clock and imports nothing of ours
// but core/wire.
package core
