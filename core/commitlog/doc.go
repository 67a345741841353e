// Package commitlog keeps the raft log on disk: entries with dense indexes in
// checksummed frames, in segment files that are the same byte for byte on every
// replica. It knows positions and bytes; what an entry means it does not know.
//
// A log is a directory:
//
//	00000000000000000001.log   sealed segment, named for its first index
//	00000000000000000001.tab   its position table
//	00000000000000004711.log   active segment: the last one, without a table
//	intent                     a truncation or reset under way
//	spare-00000000000000000001 a trimmed segment's file, to be used again
//	*.tmp                      left by a crash; removed by Open
//
// Promises:
//
//   - When Append returns nil, the entries are as durable as the flush policy says:
//     FlushSync waited for the disk. After a failed write or sync nobody knows what
//     the disk holds, so every later change is refused; the process has to end.
//   - Open cuts off what a crash left half written, and nothing else. Damage to
//     entries that once were durable is an error of kind Corrupt that names file,
//     offset and index. See judge.go for how the two are told apart.
//   - Segments are the same bytes on every replica, so that a copy can take a damaged
//     one's place: portion.go reads them, scrub.go finds and replaces.
//   - TruncateTail and Reset are all or nothing: an intent is made durable first and
//     Open completes it.
//
// One goroutine at a time changes the log (callers are serialised); any number
// read, and never wait for the disk to sync.
//
// The formats are drawn in frame.go, header.go, table.go and intent.go, and in
// docs/format-commitlog.md.
package commitlog
