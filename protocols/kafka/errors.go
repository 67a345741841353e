package kafka

import (
	"polylog/core"
)

// Kafka's error codes (Kafka protocol guide, "Error Codes"), as far as we answer them.
const (
	codeUnknownServerError           int16 = -1
	codeNone                         int16 = 0
	codeOffsetOutOfRange             int16 = 1
	codeCorruptMessage               int16 = 2
	codeUnknownTopicOrPartition      int16 = 3
	codeLeaderNotAvailable           int16 = 5
	codeNotLeaderOrFollower          int16 = 6
	codeRequestTimedOut              int16 = 7
	codeMessageTooLarge              int16 = 10
	codeOffsetMetadataTooLarge       int16 = 12
	codeCoordinatorLoadInProgress    int16 = 14
	codeCoordinatorNotAvailable      int16 = 15
	codeNotCoordinator               int16 = 16
	codeInvalidTopic                 int16 = 17
	codeRecordListTooLarge           int16 = 18
	codeInvalidRequiredAcks          int16 = 21
	codeIllegalGeneration            int16 = 22
	codeInconsistentGroupProtocol    int16 = 23
	codeInvalidGroupID               int16 = 24
	codeUnknownMemberID              int16 = 25
	codeInvalidSessionTimeout        int16 = 26
	codeRebalanceInProgress          int16 = 27
	codeInvalidCommitOffsetSize      int16 = 28
	codeTopicAuthorizationFailed     int16 = 29
	codeGroupAuthorizationFailed     int16 = 30
	codeClusterAuthorizationFailed   int16 = 31
	codeInvalidTimestamp             int16 = 32
	codeUnsupportedSASLMechanism     int16 = 33
	codeIllegalSASLState             int16 = 34
	codeUnsupportedVersion           int16 = 35
	codeTopicAlreadyExists           int16 = 36
	codeInvalidPartitions            int16 = 37
	codeInvalidReplicationFactor     int16 = 38
	codeInvalidReplicaAssignment     int16 = 39
	codeInvalidConfig                int16 = 40
	codeNotController                int16 = 41
	codeInvalidRequest               int16 = 42
	codeUnsupportedForMessageFormat  int16 = 43
	codePolicyViolation              int16 = 44
	codeOutOfOrderSequence           int16 = 45
	codeDuplicateSequence            int16 = 46
	codeInvalidProducerEpoch         int16 = 47
	codeInvalidTxnState              int16 = 48
	codeTransactionalIDAuthorization int16 = 53
	codeSecurityDisabled             int16 = 54
	codeOperationNotAttempted        int16 = 55
	codeStorageError                 int16 = 56
	codeUnknownProducerID            int16 = 59
	codeSASLAuthenticationFailed     int16 = 58
	codeNonEmptyGroup                int16 = 68
	codeGroupIDNotFound              int16 = 69
	codeFetchSessionIDNotFound       int16 = 70
	codeInvalidFetchSessionEpoch     int16 = 71
	codeTopicDeletionDisabled        int16 = 73
	codeFencedLeaderEpoch            int16 = 74
	codeUnknownLeaderEpoch           int16 = 75
	codeUnsupportedCompressionType   int16 = 76
	codeMemberIDRequired             int16 = 79
	codeGroupMaxSizeReached          int16 = 81
	codeFencedInstanceID             int16 = 82
	codeElectionNotNeeded            int16 = 84
	codeNoReassignmentInProgress     int16 = 85
	codeGroupSubscribedToTopic       int16 = 86
	codeInvalidRecord                int16 = 87
	codeUnstableOffsetCommit         int16 = 88
	codeThrottlingQuotaExceeded      int16 = 89
	codeProducerFenced               int16 = 90
	codeResourceNotFound             int16 = 91
	codeDuplicateResource            int16 = 92
	codeUnacceptableCredential       int16 = 93
	codeUnknownTopicID               int16 = 100
	codeInconsistentTopicID          int16 = 103
	codeFetchSessionTopicIDError     int16 = 106
	codeUnsupportedEndpointType      int16 = 115
	codeRebootstrapRequired          int16 = 129
)

// kindCodes is what a kind means where an API says nothing more specific.
var kindCodes = map[core.Kind]int16{
	core.OK:              codeNone,
	core.Internal:        codeUnknownServerError,
	core.Invalid:         codeInvalidRequest,
	core.NotFound:        codeUnknownTopicOrPartition,
	core.Exists:          codeTopicAlreadyExists,
	core.OutOfRange:      codeOffsetOutOfRange,
	core.TooLarge:        codeMessageTooLarge,
	core.Corrupt:         codeCorruptMessage,
	core.Denied:          codeTopicAuthorizationFailed,
	core.NotLeader:       codeNotLeaderOrFollower,
	core.Unavailable:     codeNotLeaderOrFollower, // retriable, and makes clients refresh their metadata
	core.Uncertain:       codeRequestTimedOut,
	core.Conflict:        codeInvalidRequest,
	core.Fenced:          codeInvalidProducerEpoch,
	core.OutOfSequence:   codeOutOfOrderSequence,
	core.DuplicateSeq:    codeDuplicateSequence,
	core.UnknownProducer: codeOutOfOrderSequence, // never UNKNOWN_PRODUCER_ID, which clients give up on
	core.Limit:           codePolicyViolation,
	core.Unsupported:     codeUnsupportedVersion,
	core.Closed:          codeNotLeaderOrFollower,
}

// code is the code for err: 0 for nil.
func code(err error) int16 { return kindCodes[core.KindOf(err)] }

// message is err's sentence for the fields that carry one: nil for nil.
func message(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}
