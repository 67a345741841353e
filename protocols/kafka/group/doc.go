// Package group is the coordinator of Kafka's classic consumer groups as a pure state
// machine: requests and the time go in, answers come out, at once or later. It knows
// no socket, no log, no clock and starts no goroutine.
//
// A group's life:
//
//	           first member            join phase over         leader's assignment
//	Empty ──────────────▶ PreparingRebalance ──▶ CompletingRebalance ──▶ Stable
//	  ▲                       ▲   │                      │                  │
//	  │   nobody rejoined     │   │                      │  join, leave,    │
//	  └───────────────────────┼───┘                      │  expiry          │
//	                          └──────────────────────────┴──────────────────┘
//
// In PreparingRebalance every JoinGroup is parked until all members have come, or the
// largest rebalance time-out of the members is over. The first rebalance of a group
// instead waits for a fixed delay, so that members that start together begin with one
// generation. In CompletingRebalance every SyncGroup is parked until the leader's
// brings the assignment; who has not sent one when the rebalance time-out is over is
// removed.
//
// Membership lives in memory on the leader and dies with leadership: a new
// coordinator answers UNKNOWN_MEMBER_ID and clients join again. Committed offsets are
// state in the log and none of this package's business: a group that has only those
// is not in memory at all, and looks like an Empty one.
//
// Time is kept by one heap for all groups. A heartbeat only moves its member's
// deadline forward; the heap is corrected when the old one comes up.
package group
