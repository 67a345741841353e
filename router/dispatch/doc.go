// Package dispatch decides which consumer gets which message of a queue. A Group is a
// state machine for one group of one queue: it knows who consumes, with how much credit,
// what is delivered and not settled, and what came back. It has no clock, no lock, no
// goroutine and does no I/O; the time is an argument. What it decides lasts as long as its
// node leads: whatever has to survive is for the caller to propose.
//
// What it promises:
//   - An offset is with one consumer at most, and with none once it is settled.
//   - What comes back goes ahead of everything after it, and is flagged as redelivered.
//   - A consumer never gets more than its credit and its prefetch allow.
//   - Consumers of one priority take turns; those of a lower one get what no higher one
//     can take.
//   - Nothing is delivered before the mark above it is committed (see Group.WantMark), so
//     that a later leader never takes a redelivery for a first delivery.
package dispatch
