// Package cluster turns the CommitLog into a replicated log: commands go in, every
// replica's state machine gets them in the same order, and the proposer gets the
// results. It is the only owner of the CommitLog and the only importer of a raft
// library (hashicorp/raft v1.8).
//
// What it promises: a command whose result was given was on disk on a majority of
// the voters before (as durable as the flush policy says), and is applied once on
// every replica. An error of kind NotLeader or Unavailable means that nothing was
// done; Uncertain means that nobody knows yet.
//
// # Guards
//
// hashicorp/raft v1.8.0 as it comes can let replicas diverge or hang. Seven guards
// stand against that, each with a test in guards_test.go that goes red without it:
//
//  1. No heartbeat fast path (transport.go): a heartbeat of a newer term, handled
//     beside the main goroutine, lets an old leader write entries under the new term.
//  2. Votes are written whole (stable.go): the library writes term and candidate of
//     a vote one after the other; a crash between them makes it vote twice.
//  3. RestoreCommittedLogs stays off (raftConfig), and entries between the state
//     machine's durable index and raft's snapshot are replayed by us (replay.go).
//  4. A storage error, or a write that takes longer than the stall limit, ends the
//     process (failure.go): such a leader would go on sending heartbeats for ever.
//  5. One AppendEntries RPC of raft's in flight to each follower (transport.go): pipelining
//     can wedge a follower for good after one refusal. Our own (nudge.go) carry no entries,
//     and raft does not see their answers.
//  6. Leadership is transferred only while shutting down (close.go): a transfer that
//     fails can leave a leader that refuses every proposal.
//  7. After a snapshot was installed over a longer log the process restarts
//     (checkpoint.go, catchup.go): raft keeps the old last index in memory and refuses
//     what follows.
//
// The transport does more that raft leaves open: calls are bounded in bytes, claim no more
// to be committed than what they have compared, and answers that come after the leader's
// lease do not count; entries that were taken late are not sent again. A vote is asked for
// again where a kept connection is broken. Calls that no sound node makes are refused before
// raft sees them, which would end the process (inspect.go). After a start a node votes when
// others have told it that it has lost nothing (recall.go). Followers forget a leader that
// is gone together (doubt.go). And a node with much to apply, as after a restart, goes on
// answering (stepwise.go).
//
// # Any node
//
// A node that does not lead sends what is proposed to the leader (forward.go says what it
// promises; forward_session.go is its side of a stream, forward_serve.go the leader's), and
// asks it before it confirms a read (read_remote.go). The leader tells followers of commits
// without waiting for raft's next call (nudge.go). Streams are cluster/peer's.
//
// # Files
//
// What raft cannot give a node travels as files: a whole state to one that is outside
// the log's retention (files.go serves, fetch.go receives, catchup.go decides,
// takeover.go swaps), single segments to one whose disk has damaged them (scrub.go finds,
// repair.go fetches), and backups (backup.go).
//
// # Goroutines and locks
//
// Raft has three goroutines of its own that call us: main (LogStore, StableStore), FSM
// (fsm.go) and snapshots (snapshot.go). Ours: the inspector of calls (inspect.go), the
// batcher and the completer (propose.go), the forwarder (forward.go), the watcher of
// leadership (leadership.go), the readers (read.go, read_remote.go), the nudger (nudge.go),
// the doubter (doubt.go), the checkpointer (checkpoint.go), the one that catches up
// (catchup.go), the scrubber (scrub.go) and the stall watch (failure.go). The locks are proposer.mu, forwarder.mu, answers.mu, nudger.mu, awaited.mu
// and leadership.mu; none is held while taking another or while calling raft or the state
// machine. exports.making is held while a state is made ready for other nodes, and takes
// checkpointing (which asks raft for a checkpoint) and exports.mu (held while the log is
// trimmed). logStore.writing orders raft's writes and the moment from which there must be
// none.
package cluster
