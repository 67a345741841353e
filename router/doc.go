// Package router is the one door through which every protocol reaches the broker:
// topics and their configuration, publish, read, watch, group offsets, producer
// ids. It checks rights, limits and existence, turns requests into commands for
// the replicated log, answers reads from the indexes and the log, and wakes those
// who wait for a queue.
//
// What a command means is router/state's business, in log order; what can be
// answered without changing anything is answered here, from the same indexes.
//
// Every method may be called from any goroutine. Methods that take a context wait
// for the log; cancelling it stops the waiting, not the command, which may still
// be done: the error is then of kind core.Uncertain.
package router
