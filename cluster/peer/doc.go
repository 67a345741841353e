// Package peer carries everything that nodes of a cluster say to each other over one
// listener: raft's own connections, and streams between services (core.Stream) on gRPC.
// It knows nothing of raft or of the log, and is the only importer of gRPC.
//
// A connection begins with TLS, where that is configured, then the greeting (hello.go):
// the caller says which cluster and node it is, whom it wants and for what use, and the
// listener answers. Only then do bytes reach raft's or gRPC's decoders. A connection
// from another cluster, for another node or of an unknown version is refused with one
// line in the logs of both sides. The greeting identifies; it is mutual TLS that keeps
// strangers out.
//
// What a peer can cost is bounded: connections in number, a greeting in bytes and time,
// a message by core.MaxStreamMessage, a stream by its flow-control window, and the
// streams of a connection in number. A peer that is gone without a word is noticed by
// keepalive within 15 seconds.
package peer
