package group

import "time"

// Protocol is a way to assign partitions that a member supports, with what the member
// has to say about itself to whoever assigns.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Join is a JoinGroup request. Metadata is taken over.
type Join struct {
	Group        string
	Member       string // empty on the first one
	Instance     string // a static member's own name; empty for dynamic members
	ClientID     string
	ClientHost   string
	Session      time.Duration
	Rebalance    time.Duration // <= 0: the same as Session
	ProtocolType string        // "consumer", "connect", …
	Protocols    []Protocol    // in order of preference
	Reason       string        // for the log
	// NeedsID says that a dynamic member without an id only gets one, and has to
	// join again with it (version 4 and later): a client that vanishes between its
	// connection and its answer leaves no member behind.
	NeedsID bool
	// CanSkip says that the client understands Joined.Skip (version 9 and later).
	CanSkip bool
}

// Joined answers a Join.
type Joined struct {
	Code         Code
	Member       string
	Generation   int32  // -1 on errors
	ProtocolType string // empty on errors
	Protocol     string // empty on errors
	Leader       string
	Skip         bool             // the leader need not assign: the assignment stands
	Members      []ProtocolMember // for the leader only
}

// ProtocolMember is a member as its leader sees it.
type ProtocolMember struct {
	Member, Instance string
	Metadata         []byte
}

// Sync is a SyncGroup request. The assignments' data are taken over.
type Sync struct {
	Group, Member, Instance string
	Generation              int32
	ProtocolType, Protocol  *string // nil: not given
	Assignments             []Assignment
}

// Assignment is what the leader gives a member.
type Assignment struct {
	Member string
	Data   []byte
}

// Synced answers a Sync.
type Synced struct {
	Code                   Code
	ProtocolType, Protocol string // empty on errors
	Assignment             []byte
}

// Leaver is a member that leaves or is put out. An administrator names a static member
// by its Instance alone.
type Leaver struct {
	Member, Instance, Reason string
}
