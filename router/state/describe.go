package state

import (
	"encoding/binary"
	"fmt"
	"maps"

	"polylog/core"
)

// Describe is a command in words, on one line, for people who read a log.
func Describe(code core.Code, body []byte) string {
	switch code {
	case CodeAppend:
		if len(body) < appendHeadLen {
			return fmt.Sprintf("append: %d bytes", len(body))
		}
		h, _ := core.ParseBatchHeader(body[appendHeadLen:])
		return fmt.Sprintf("append queue=%d bytes=%d records=%d attributes=%#x time=%d..%d producer=%d/%d sequence=%d",
			binary.BigEndian.Uint64(body), len(body)-appendHeadLen, h.Count, h.Attributes, h.BaseTime, h.MaxTime,
			h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	case CodeCreateTopic:
		return describe("create topic", body, decodeCreateTopic)
	case CodeDeleteTopic:
		return describe("delete topic", body, decodeDeleteTopic)
	case CodeCreatePartitions:
		return describe("create partitions", body, decodeCreatePartitions)
	case CodeAlterTopicConfig:
		return describe("alter topic configuration", body, decodeAlterTopicConfig)
	case CodeAlterBrokerConfig:
		return describe("alter broker configuration", body, decodeAlterBrokerConfig)
	case CodeCommitOffsets:
		return describe("commit offsets", body, decodeCommitOffsets)
	case CodeDeleteOffsets:
		return describe("delete offsets", body, decodeDeleteOffsets)
	case CodeDeleteGroup:
		return describe("delete group", body, decodeDeleteGroup)
	case CodeAllocateProducerIDs:
		return describe("allocate producer ids", body, decodeAllocateProducerIDs)
	case CodeTrimQueues:
		return describe("trim queues", body, decodeTrimQueues)
	case CodeExpire:
		return describe("expire", body, decodeExpire)
	case CodeSweep:
		return describe("sweep", body, decodeSweep)
	case CodeAnnounce:
		return describe("announce", body, decodeAnnounce)
	case CodeSetFeatureLevel:
		return describe("set feature level", body, decodeSetFeatureLevel)
	case CodeForgetMember:
		return describe("forget member", body, decodeForgetMember)
	case CodeNoteMembers:
		return describe("note members", body, decodeNoteMembers)
	case CodeDeclareQueue:
		return describe("declare queue", body, decodeDeclareQueue)
	case CodeDeleteQueue:
		return describe("delete queue", body, decodeDeleteQueue)
	case CodeCreateAckGroup:
		return describe("create group", body, decodeCreateAckGroup)
	case CodeDeleteAckGroup:
		return describe("delete group", body, decodeDeleteAckGroup)
	case CodeSettle:
		return describe("settle", body, decodeSettle)
	case CodeOpenSession:
		return describe("open session", body, decodeOpenSession)
	case CodeEndSession:
		return describe("end session", body, decodeEndSession)
	case CodeAcquireLeaseFor:
		return describe("acquire lease", body, decodeAcquireLeaseFor)
	case CodeAcquireLease:
		return describe("acquire lease", body, decodeAcquireLease)
	case CodeReleaseLease:
		return describe("release lease", body, decodeReleaseLease)
	case CodeSweepLeases:
		return describe("sweep leases", body, decodeSweepLeases)
	case CodeDigest:
		return describe("digest", body, decodeDigest)
	case CodeDeclareExchange:
		return describe("declare exchange", body, decodeDeclareExchange)
	case CodeDeleteExchange:
		return describe("delete exchange", body, decodeDeleteExchange)
	case CodeBind:
		return describe("bind", body, decodeBind)
	case CodeUnbind:
		return describe("unbind", body, decodeUnbind)
	case CodePublish:
		return describePublish(body)
	case CodeCreateNamespace:
		return describe("create namespace", body, decodeCreateNamespace)
	case CodeRetain:
		c, err := decodeRetain(body)
		if err != nil {
			return fmt.Sprintf("retain: %d bytes that cannot be read: %v", len(body), err)
		}
		return fmt.Sprintf("retain queue=%d name=%s bytes=%d", c.Queue, c.Name, len(c.Batch))
	case CodeOpenMQTT:
		c, err := decodeOpenMQTT(body)
		if err != nil || c.Will == nil {
			return describe("open mqtt session", body, decodeOpenMQTT)
		}
		w := c.Will
		return fmt.Sprintf("open mqtt session lease=%q token=%d clean=%t expiry=%ds will queue=%d name=%q retain=%t delay=%ds bytes=%d",
			c.Lease, c.Token, c.Clean, c.Expiry, w.Queue, w.Name, w.Retain, w.Delay, len(w.Batch))
	case CodeCloseMQTT:
		return describe("close mqtt session", body, decodeCloseMQTT)
	case CodeSubscribeMQTT:
		return describe("mqtt subscribe", body, decodeSubscribeMQTT)
	case CodeUnsubscribeMQTT:
		return describe("mqtt unsubscribe", body, decodeUnsubscribeMQTT)
	case CodePublishMQTT:
		c, err := decodePublishMQTT(body)
		if err != nil {
			return fmt.Sprintf("mqtt publish: %d bytes that cannot be read: %v", len(body), err)
		}
		return fmt.Sprintf("mqtt publish queue=%d name=%q retain=%t delay=%ds lease=%q packet=%d bytes=%d",
			c.Queue, c.Name, c.Retain, c.Delay, c.Lease, c.PacketID, len(c.Batch))
	case CodeFlowMQTT:
		return describe("mqtt flow", body, decodeFlowMQTT)
	case CodePublishDue:
		c, err := decodePublishDue(body)
		if err != nil {
			return fmt.Sprintf("publish due: %d bytes that cannot be read: %v", len(body), err)
		}
		return fmt.Sprintf("publish due timer=%x due=%d bytes=%d", c.ID, c.Due, len(c.Batch))
	case CodeEndMQTT:
		return describe("end mqtt session", body, decodeEndMQTT)
	case CodeCarryMQTTNames:
		return describe("carry mqtt names", body, decodeCarryMQTTNames)
	case CodeDeleteNamespace:
		return describe("delete namespace", body, decodeDeleteNamespace)
	case CodeTransact:
		return describeTransact(body)
	case CodeDeclareFullQueue:
		return describe("declare queue", body, decodeDeclareFullQueue)
	case CodeTick:
		return describe("tick", body, decodeTick)
	case CodeSettleFull:
		return describe("settle", body, decodeSettleFull)
	case CodeDeleteUnused:
		return describe("delete unused queue", body, decodeDeleteUnused)
	case CodeDeleteOwned:
		return describe("delete owned queues", body, decodeDeleteOwned)
	case CodeSetPolicy:
		return describe("set policy", body, decodeSetPolicy)
	case CodeDeletePolicy:
		return describe("delete policy", body, decodeDeletePolicy)
	case CodeSetSubscription:
		return describe("set subscription", body, func(body []byte) (SetSubscription, error) {
			c, err := decodeSetSubscription(body)
			c.Config.Attributes = withoutSecrets(c.Config.Attributes)
			return c, err
		})
	case CodeDeleteSubscription:
		return describe("delete subscription", body, decodeDeleteSubscription)
	case CodePublishOnce:
		c, err := decodePublishOnce(body)
		if err != nil {
			return fmt.Sprintf("publish once: %d bytes that cannot be read: %v", len(body), err)
		}
		return fmt.Sprintf("publish once key=%q digest=%x batches=%d bytes=%d", c.Key, c.Digest, len(c.Batches), len(body))
	case CodeSetHook:
		return describe("set hook", body, func(body []byte) (SetHook, error) {
			c, err := decodeSetHook(body)
			c.Secrets = fmt.Sprintf("(%d bytes)", len(c.Secrets))
			return c, err
		})
	case CodeDeleteHook:
		return describe("delete hook", body, decodeDeleteHook)
	case CodeNoteEndpoint:
		c, err := decodeNoteEndpoint(body)
		if err != nil {
			return describe("note endpoint", body, decodeNoteEndpoint)
		}
		return fmt.Sprintf("note endpoint name=%s created=%d note=%q", c.Name, c.Created, c.Note)
	case CodeSetUser:
		return describe("set user", body, func(body []byte) (SetUser, error) {
			c, err := decodeSetUser(body)
			return c.hidden(), err
		})
	case CodeDeleteUser:
		return describe("delete user", body, decodeDeleteUser)
	case CodeSetRights:
		return describe("set rights", body, decodeSetRights)
	case CodeSeekSubscription:
		return describe("seek subscription", body, decodeSeekSubscription)
	default:
		return fmt.Sprintf("unknown command %d, %d bytes", code, len(body))
	}
}

func describePublish(body []byte) string {
	var p publishing
	if err := p.readFrom(&cursor{}, body, 0); err != nil {
		return fmt.Sprintf("publish: %d bytes that cannot be read: %v", len(body), err)
	}
	return fmt.Sprintf("publish namespace=%q exchange=%q keys=%q bytes=%d", p.namespace, p.exchange, p.keys, p.run.Len)
}

func describeTransact(body []byte) string {
	var t transacting
	if _, err := t.readFrom(&cursor{}, body, 0); err != nil {
		return fmt.Sprintf("transact: %d bytes that cannot be read: %v", len(body), err)
	}
	settle, _ := t.decode(t.settle)
	return fmt.Sprintf("transact messages=%d settle=%+v", len(t.publishes), settle)
}

func describe[C any](what string, body []byte, decode func([]byte) (C, error)) string {
	c, err := decode(body)
	if err != nil {
		return fmt.Sprintf("%s: %d bytes that cannot be read: %v", what, len(body), err)
	}
	return fmt.Sprintf("%s %+v", what, c)
}

// SecretAttribute is the attribute of a subscription that is shown to nobody.
const SecretAttribute = "secrets"

// withoutSecrets are attributes as they can be shown.
func withoutSecrets(attributes map[string]string) map[string]string {
	if v, ok := attributes[SecretAttribute]; ok {
		attributes = maps.Clone(attributes)
		attributes[SecretAttribute] = fmt.Sprintf("(%d bytes)", len(v))
	}
	return attributes
}
