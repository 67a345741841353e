package state

import (
	"polylog/core"
)

// The command codes. They are in logs on disk: never change or reuse one.
const (
	CodeAppend              core.Code = 1
	CodeCreateTopic         core.Code = 2
	CodeDeleteTopic         core.Code = 3
	CodeCreatePartitions    core.Code = 4
	CodeAlterTopicConfig    core.Code = 5
	CodeAlterBrokerConfig   core.Code = 6
	CodeCommitOffsets       core.Code = 7
	CodeDeleteOffsets       core.Code = 8
	CodeDeleteGroup         core.Code = 9
	CodeAllocateProducerIDs core.Code = 10
	CodeTrimQueues          core.Code = 11
	CodeExpire              core.Code = 12
	CodeSweep               core.Code = 13
	CodeAnnounce            core.Code = 14
	CodeSetFeatureLevel     core.Code = 15
	CodeForgetMember        core.Code = 16
	CodeNoteMembers         core.Code = 17
	CodeDeclareQueue        core.Code = 20
	CodeDeleteQueue         core.Code = 21
	CodeCreateAckGroup      core.Code = 22
	CodeDeleteAckGroup      core.Code = 23
	CodeSettle              core.Code = 24
	CodeOpenSession         core.Code = 40
	CodeEndSession          core.Code = 41
	CodeAcquireLease        core.Code = 42
	CodeReleaseLease        core.Code = 43
	CodeSweepLeases         core.Code = 44
	CodeDigest              core.Code = 50
	CodeDeclareExchange     core.Code = 60
	CodeDeleteExchange      core.Code = 61
	CodeBind                core.Code = 62
	CodeUnbind              core.Code = 63
	CodePublish             core.Code = 64
	CodeCreateNamespace     core.Code = 65
	CodeDeleteNamespace     core.Code = 66
	CodeTransact            core.Code = 67
	CodeTick                core.Code = 70
	CodeDeclareFullQueue    core.Code = 71
	CodeSettleFull          core.Code = 72
	CodeDeleteUnused        core.Code = 73
	CodeSetPolicy           core.Code = 74
	CodeDeletePolicy        core.Code = 75
	CodeDeleteOwned         core.Code = 76
	CodeRetain              core.Code = 80
	CodeOpenMQTT            core.Code = 81
	CodeCloseMQTT           core.Code = 82
	CodeSubscribeMQTT       core.Code = 83
	CodeUnsubscribeMQTT     core.Code = 84
	CodePublishMQTT         core.Code = 85
	CodeFlowMQTT            core.Code = 86
	CodePublishDue          core.Code = 87
	CodeCarryMQTTNames      core.Code = 88
	CodeEndMQTT             core.Code = 89
	CodeSetSubscription     core.Code = 90
	CodeDeleteSubscription  core.Code = 91
	CodeSeekSubscription    core.Code = 92
	CodePublishOnce         core.Code = 93
	CodeSetHook             core.Code = 94
	CodeDeleteHook          core.Code = 95
	CodeNoteEndpoint        core.Code = 96
	CodeSetUser             core.Code = 110
	CodeDeleteUser          core.Code = 111
	CodeSetRights           core.Code = 112
	CodeAcquireLeaseFor     core.Code = 113
)

// levels are the feature levels that commands need; 0: this program does not know the code.
var levels = [256]uint8{
	CodeAppend:              1,
	CodeCreateTopic:         1,
	CodeDeleteTopic:         1,
	CodeCreatePartitions:    1,
	CodeAlterTopicConfig:    1,
	CodeAlterBrokerConfig:   1,
	CodeCommitOffsets:       1,
	CodeDeleteOffsets:       1,
	CodeDeleteGroup:         1,
	CodeAllocateProducerIDs: 1,
	CodeTrimQueues:          1,
	CodeExpire:              1,
	CodeSweep:               1,
	CodeAnnounce:            1,
	CodeSetFeatureLevel:     1,
	CodeForgetMember:        1,
	CodeNoteMembers:         3,
	CodeDeclareQueue:        2,
	CodeDeleteQueue:         2,
	CodeCreateAckGroup:      2,
	CodeDeleteAckGroup:      2,
	CodeSettle:              2,
	CodeOpenSession:         2,
	CodeEndSession:          2,
	CodeAcquireLease:        2,
	CodeReleaseLease:        2,
	CodeSweepLeases:         2,
	CodeDigest:              2,
	CodeDeclareExchange:     3,
	CodeDeleteExchange:      3,
	CodeBind:                3,
	CodeUnbind:              3,
	CodePublish:             3,
	CodeCreateNamespace:     3,
	CodeDeleteNamespace:     3,
	CodeTransact:            3,
	CodeTick:                3,
	CodeDeclareFullQueue:    3,
	CodeSettleFull:          3,
	CodeDeleteUnused:        3,
	CodeSetPolicy:           3,
	CodeDeletePolicy:        3,
	CodeDeleteOwned:         3,
	CodeRetain:              3,
	CodeOpenMQTT:            3,
	CodeCloseMQTT:           3,
	CodeSubscribeMQTT:       3,
	CodeUnsubscribeMQTT:     3,
	CodePublishMQTT:         3,
	CodeFlowMQTT:            3,
	CodePublishDue:          3,
	CodeCarryMQTTNames:      3,
	CodeEndMQTT:             3,
	CodeSetSubscription:     3,
	CodeDeleteSubscription:  3,
	CodeSeekSubscription:    3,
	CodePublishOnce:         3,
	CodeSetHook:             3,
	CodeDeleteHook:          3,
	CodeNoteEndpoint:        3,
	CodeSetUser:             3,
	CodeDeleteUser:          3,
	CodeSetRights:           3,
	CodeAcquireLeaseFor:     3,
}

// known reports whether State.command has the code.
func known(code core.Code) bool { return levels[code] != 0 }

// invalid is the result of a command whose body cannot be read.
func invalid(what string, err error) core.Result {
	return core.Result{Err: core.E(core.Invalid, "%s: %v", what, err)}
}

// refused is the result of a command that was understood but not done.
func refused(k core.Kind, format string, args ...any) core.Result {
	return core.Result{Err: core.E(k, format, args...)}
}
