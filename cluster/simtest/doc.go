// Package simtest plays whole clusters in one process, thousands in an hour: three nodes
// of raft, log, state machine and index, as they are in the broker, on disks in memory
// that lose what was not synced, on a network in memory, with clients of all of them. Each
// world comes from a seed and lives in a bubble of testing/synctest, whose clock goes on
// only while everybody waits: an election costs no time.
//
// A world forms a cluster, suffers the faults of its plan (plan.go) while clients work
// (client.go), is healed, and has to agree. All the time is checked (node.go, history.go):
//
//   - every replica applies the same entry at an index, with the same results;
//   - what is acknowledged has an offset after all that was known when it was sent, and
//     what is read after ReadIndex contains all that was known when it was asked for:
//     appends and reads are linearizable, as the queue itself is their order;
//   - an offset never means another record;
//   - a group's position does not fall, but to one whose commit had no answer.
//
// And in the end (agree.go), within a minute after the last fault:
//
//   - all nodes have applied the same, with equal hashes of the state, equal entries, and
//     equal bytes of sealed segments;
//   - what was acknowledged is there, once, whole, at its offset; of an idempotent
//     producer in its order; what was refused is not there, what had no answer at most
//     once; nothing else is there, and offsets are dense.
//
// # Seeds
//
// A seed fixes the plan, each client's choices and what a power cut leaves. It does not fix the
// order in which goroutines run: the bubble's clock is fake, the scheduler is Go's. So a
// seed that fails is to be run several times, and its failure comes with the plan and a
// journal of what happened when.
//
// # Scripts
//
// What chance finds too seldom is played by scripts (scripts.go) in worlds of their own,
// among them what the guards of package cluster are for.
//
// # Does it find anything
//
// A log that acknowledges before it syncs is found within a few seeds, at each run of the
// tests (TestFindsWritesThatAreNotSynced). A script finds, with the first seed, that guard
// 1, 2 or 7 is missing: make sim-guards takes them out (guards_test.go). Tried by hand, with
// go test -overlay, and not found: a cache that keeps what was truncated (35 seeds), a tail
// that stays in the file (51). The unit tests of commitlog keep these.
//
// # Limits
//
// A goroutine that waits for a mutex keeps the bubble's clock from going on, so whoever
// holds one must not wait for time. So no disk here is slow, but for votes, and connections take
// every byte at once. Nor are bits flipped. compat-tests/faults has these, on
// real processes. Where a sync of the vote file fails, the process ends at once.
package simtest
