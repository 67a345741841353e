package group

// Code is Kafka's error code.
type Code int16

// The codes that a coordinator answers with.
const (
	None                   Code = 0
	MessageTooLarge        Code = 10
	CoordinatorUnavailable Code = 15
	NotCoordinator         Code = 16
	IllegalGeneration      Code = 22
	InconsistentProtocol   Code = 23
	InvalidGroupID         Code = 24
	UnknownMemberID        Code = 25
	InvalidSessionTimeout  Code = 26
	RebalanceInProgress    Code = 27
	NonEmptyGroup          Code = 68
	GroupIDNotFound        Code = 69
	MemberIDRequired       Code = 79
	GroupMaxSizeReached    Code = 81
	FencedInstanceID       Code = 82
	InvalidRequest         Code = 42
	FencedMemberEpoch      Code = 110
	UnreleasedInstanceID   Code = 111
	UnsupportedAssignor    Code = 112
	StaleMemberEpoch       Code = 113
	InvalidRegex           Code = 128
)
