// Package state is the replicated state machine: what the commands in the log
// mean. It keeps topics and their queues, producers' sequences, group offsets and
// the broker configuration in the indexes, and gives every record its offset.
//
// Apply is a function of the entries and the state before them alone. It reads no
// clock (the time is the entry's), no random numbers and no files, so that every
// replica that applied the same entries holds the same state; Hash proves it. All
// changing methods belong to one goroutine, the applier; the reading ones may be
// called from anywhere.
//
// A command that makes no sense gets a Result with an error and changes nothing.
// An error of the store itself is the end of this replica, and so is an entry that
// only a newer program understands: Options.Fatal.
//
// Keys of the KV space begin with one byte that says what they are; see keys.go.
package state
