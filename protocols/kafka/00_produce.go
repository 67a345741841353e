package kafka

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// Versions 0 to 2 are advertised, for librdkafka's sake, and refused; 7 brought zstd,
// 8 record errors, 10 leader hints, 13 topic ids.
const (
	produceMin     = 3
	produceMax     = 13
	produceZstd    = 7
	produceHints   = 10
	produceTopicID = 13
)

// producing is a Produce under way. The partitions' outcomes arrive one by one; the
// last one answers.
type producing struct {
	call *call
	resp *kmsg.ProduceResponse
	acks int16
	term core.Term    // that this node led in when the request came
	left atomic.Int64 // outcomes still missing, plus one while produce is still submitting
}

// produce appends one batch to each partition of the request. Payloads stay where the
// socket read put them until the log has them.
func produce(ctx context.Context, c *call, req *kmsg.ProduceRequest) {
	p := &producing{call: c, acks: req.Acks, term: c.srv.router.Term(), resp: kmsg.NewPtrProduceResponse()}
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	n := int64(1)
	for i := range req.Topics {
		rt, t := &req.Topics[i], &p.resp.Topics[i]
		t.Topic, t.TopicID = rt.Topic, rt.TopicID
		t.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		n += int64(len(rt.Partitions))
	}
	p.left.Store(n)
	refused := c.refuseProduce(req)
	for i := range req.Topics {
		rt, t := &req.Topics[i], &p.resp.Topics[i]
		topic, code := c.topicFor(router.OpWrite, rt.Topic, rt.TopicID, c.version >= produceTopicID)
		for j := range rt.Partitions {
			part := &t.Partitions[j]
			part.Default()
			part.Partition = rt.Partitions[j].Partition
			part.BaseOffset, part.LogAppendTime, part.LogStartOffset = -1, -1, -1
			switch {
			case refused != codeNone:
				part.ErrorCode = refused
				p.done()
			case topic == nil:
				part.ErrorCode = code
				p.done()
			default:
				p.append(ctx, topic, part, rt.Partitions[j].Records)
			}
		}
	}
	p.done()
}

// refuseProduce is the code for a request that no partition can take.
func (c *call) refuseProduce(req *kmsg.ProduceRequest) int16 {
	switch {
	case c.version < produceMin:
		return codeUnsupportedVersion
	case req.Acks < -1 || req.Acks > 1:
		return codeInvalidRequiredAcks
	case !c.srv.router.IsLeader():
		return codeNotLeaderOrFollower
	default:
		return codeNone
	}
}

// append validates records and hands them to the router, for this node to store while it leads in
// the same term: it may have lost its leadership while they were inflated.
func (p *producing) append(ctx context.Context, t *router.Topic, part *kmsg.ProduceResponseTopicPartition, records []byte) {
	q, ok := t.Queue(part.Partition)
	if !ok {
		part.ErrorCode = codeUnknownTopicOrPartition
		p.done()
		return
	}
	srv := p.call.srv
	v := validator{topic: t, zstd: p.call.version >= produceZstd, now: srv.now()}
	batch, err := v.validate(records)
	if err == nil && v.inflates {
		batch, err = srv.inspect(ctx, &v, batch)
	}
	if err != nil {
		p.refuse(part, err)
		return
	}
	srv.router.PublishHere(p.call.principal(), p.term, q, batch, func(r router.PublishResult) {
		if r.Err != nil {
			p.refuse(part, r.Err)
			return
		}
		part.BaseOffset, part.LogAppendTime, part.LogStartOffset = int64(r.Offset), r.AppendTime, int64(r.Start)
		p.done()
	})
}

// refuse records a partition's failure.
func (p *producing) refuse(part *kmsg.ProduceResponseTopicPartition, err error) {
	part.ErrorCode, part.ErrorMessage = produceCode(err), message(err)
	if part.ErrorCode == codeUnknownTopicOrPartition { // deleted meanwhile
		part.ErrorCode = p.call.unknownTopic(produceTopicID)
	}
	if bad, ok := errors.AsType[*recordError](err); ok {
		for _, at := range bad.records {
			part.ErrorRecords = append(part.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{
				RelativeOffset: at, ErrorMessage: part.ErrorMessage,
			})
		}
	}
	p.done()
}

// done counts an outcome; the last one answers the call.
func (p *producing) done() {
	if p.left.Add(-1) > 0 {
		return
	}
	failed := false
	stale := false
	for i := range p.resp.Topics {
		for j := range p.resp.Topics[i].Partitions {
			code := p.resp.Topics[i].Partitions[j].ErrorCode
			failed = failed || code != codeNone
			stale = stale || code == codeNotLeaderOrFollower
		}
	}
	switch {
	case p.acks == 0 && failed:
		p.call.fail(errNoAcks)
	case p.acks == 0:
		p.call.drop()
	default:
		if stale && p.call.version >= produceHints {
			p.hint()
		}
		p.call.reply(p.resp)
	}
}

// errNoAcks closes a connection whose producer asked for no answers: it cannot learn of
// an error in another way.
var errNoAcks = errors.New("produce without acknowledgement failed")

// hint adds the leader to the answer (KIP-951).
func (p *producing) hint() {
	cl := p.call.cluster()
	leader, ok := cl.otherLeader()
	if !ok {
		return
	}
	for i := range p.resp.Topics {
		for j := range p.resp.Topics[i].Partitions {
			if part := &p.resp.Topics[i].Partitions[j]; part.ErrorCode == codeNotLeaderOrFollower {
				part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch = cl.leader, cl.epoch
			}
		}
	}
	p.resp.Brokers = []kmsg.ProduceResponseBroker{{NodeID: leader.id, Host: leader.host, Port: leader.port, Rack: leader.rack}}
}

// produceCode is the code for a batch that was not appended.
func produceCode(err error) int16 {
	if bad, ok := errors.AsType[*recordError](err); ok {
		return bad.code
	}
	switch core.KindOf(err) {
	case core.DuplicateSeq:
		return codeOutOfOrderSequence // as Kafka: what is older than its five batches is out of order
	case core.Invalid:
		return codeInvalidRecord
	default:
		return code(err)
	}
}
