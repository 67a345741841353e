package kafkarest

import (
	"context"
	"regexp"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/kafka"
	"polylog/router"
)

// instance is a consumer instance: a consumer of Kafka's whose client comes over HTTP, now and then.
type instance struct {
	instanceName
	srv    *Server
	config instanceConfig

	ctx     context.Context //nolint:containedctx // of the instance
	stop    context.CancelFunc
	member  *coordinator  // for what keeps it in its group
	offsets *coordinator  // for commits, which must not wait for a rebalance
	reading chan struct{} // of capacity 1: held by a call that reads records
	expiry  *time.Timer

	changing sync.Mutex // held while what is subscribed to or assigned by the client changes; before mu

	mu         sync.Mutex // guards what follows
	caller     kafka.Caller
	busy       int // calls at work
	ended      bool
	topics     []string       // subscribed to by name
	pattern    *regexp.Regexp // or by pattern; nil: not
	membership *membership    // while there is a subscription
	parts      map[topicPartition]*cursor
	manual     bool          // parts were assigned by the client
	moved      chan struct{} // closed when parts is another one
	turn       int           // of partitions, so that each gets read
	committed  time.Time     // when positions were last committed by themselves
}

// instanceConfig is what a client decides when it makes an instance.
type instanceConfig struct {
	format     format
	reset      string // auto.offset.reset: earliest, latest, none
	autoCommit bool
	minBytes   int           // fetch.min.bytes: how much makes an answer before its time; 1 or less: anything
	wait       time.Duration // consumer.request.timeout.ms: how long to wait at most; -1: not said
}

// topicPartition names a partition.
type topicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// cursor is how far an instance is in a partition.
type cursor struct {
	queue core.QueueID
	at    core.Offset // the next record for the client; -1: not known yet
	// sure is at before the last answer, or more: the client has come again since. It is what is
	// committed by itself, so that an answer that never arrived is given to somebody.
	sure core.Offset
	kept core.Offset // committed by itself; -1: nothing yet
}

// enter begins a call for the instance; false when it has ended. leave ends the call.
func (in *instance) enter() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		return false
	}
	in.busy++
	return true
}

func (in *instance) leave() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy--
	if in.busy == 0 && !in.ended {
		in.expiry.Reset(in.srv.opts.InstanceTimeout)
	}
}

// idle reports whether no call is at work; a call that is makes the instance last.
func (in *instance) idle() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.busy > 0 {
		return false
	}
	in.ended = true
	return true
}

// subscribe makes the instance a member of its group, for topics or a pattern.
func (in *instance) subscribe(topics []string, pattern *regexp.Regexp) error {
	in.changing.Lock()
	defer in.changing.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		return errInstanceNotFound
	}
	if in.manual {
		return errSubscribed
	}
	if in.membership != nil && (pattern == nil) != (in.pattern == nil) {
		return errSubscribed
	}
	in.topics, in.pattern = topics, pattern
	if in.membership != nil {
		in.membership.changed()
		return nil
	}
	m := &membership{in: in, generation: -1, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, stop := context.WithCancel(in.ctx)
	m.stop = stop
	in.membership = m
	go m.run(ctx)
	return nil
}

// unsubscribe leaves the group, and gives up what was assigned. sure says that the client has all
// that it was given.
func (in *instance) unsubscribe(sure bool) {
	in.changing.Lock()
	defer in.changing.Unlock()
	in.mu.Lock()
	m := in.membership
	in.mu.Unlock()
	if m != nil {
		m.stop()
		<-m.ended
	}
	in.autoCommit(context.WithoutCancel(in.ctx), sure)
	if m != nil {
		m.leave()
	}
	in.mu.Lock()
	in.membership, in.topics, in.pattern, in.manual = nil, nil, nil, false
	in.replaceLocked(nil)
	in.mu.Unlock()
}

// assign takes the client's word for what the instance reads, without a group. Who is assigned
// something again goes on there.
func (in *instance) assign(ctx context.Context, ps []topicPartition) error {
	in.changing.Lock()
	defer in.changing.Unlock()
	if in.subscribed() {
		return errSubscribed
	}
	in.autoCommit(ctx, true) // what was assigned before
	parts, err := in.cursors(ctx, ps)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for p, was := range in.parts {
		if parts[p] != nil {
			parts[p] = was
		}
	}
	in.manual = len(parts) > 0
	in.replaceLocked(parts)
	return nil
}

// subscribed reports whether the instance takes part in its group.
func (in *instance) subscribed() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.membership != nil
}

// readsNothing reports whether there is nothing that the instance could read, now or soon.
func (in *instance) readsNothing() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.membership == nil && !in.manual
}

// replaceLocked makes parts the instance's partitions.
func (in *instance) replaceLocked(parts map[topicPartition]*cursor) {
	in.parts = parts
	close(in.moved)
	in.moved = make(chan struct{})
}

// replace is replaceLocked, for who does not have the lock.
func (in *instance) replace(parts map[topicPartition]*cursor) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.replaceLocked(parts)
}

// locate finds where a partition is to be read from: behind what the group has committed, else where
// the instance wants to begin.
func (in *instance) locate(q core.QueueID) (core.Offset, error) {
	o, ok, err := in.srv.router.FetchOffset(in.group, q)
	if err != nil {
		return -1, err
	}
	if ok {
		return o.Offset, nil
	}
	return in.begin(q)
}

// begin is where an instance begins that has no position.
func (in *instance) begin(q core.QueueID) (core.Offset, error) {
	h, err := in.srv.router.Head(q)
	switch {
	case err != nil:
		return -1, err
	case in.config.reset == "earliest":
		return h.Start, nil
	case in.config.reset == "none":
		return -1, &refusal{codeKafka, "Kafka error: the group has no position, and auto.offset.reset is none"}
	}
	return h.Stable, nil
}

// cursors are those of partitions that the instance was given. Topics that are unknown here are left
// out.
func (in *instance) cursors(ctx context.Context, ps []topicPartition) (map[topicPartition]*cursor, error) {
	if err := in.srv.router.Sync(ctx); err != nil { // what others have committed
		return nil, err
	}
	parts := make(map[topicPartition]*cursor, len(ps))
	for _, p := range ps {
		t, ok := in.srv.router.Topic(topicName(p.Topic))
		if !ok || p.Partition < 0 || int(p.Partition) >= len(t.Partitions) {
			continue
		}
		q := t.Partitions[p.Partition]
		at, err := in.locate(q)
		if err != nil && !isRefusal(err) {
			return nil, err
		}
		parts[p] = &cursor{queue: q, at: at, sure: at, kept: -1}
	}
	return parts, nil
}

// position is an offset of a partition to be committed.
type position struct {
	topicPartition
	offset   core.Offset
	metadata *string
}

// positions are how far the client is in what is assigned: as far as it surely has what it was given,
// or all of that.
func (in *instance) positions(sure bool) (ps []position) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for p, k := range in.parts {
		at := k.at
		if sure {
			at = k.sure
		}
		if at >= 0 {
			ps = append(ps, position{topicPartition: p, offset: at})
		}
	}
	return ps
}

// arrived says that the client has what it was answered: it has come again.
func (in *instance) arrived() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, k := range in.parts {
		k.sure = k.at
	}
}

// autoCommit commits what the client has, where the instance is to do so by itself. With all it takes
// the last answer to have arrived. What fails is committed the next time, or delivered again.
func (in *instance) autoCommit(ctx context.Context, all bool) {
	if !in.config.autoCommit {
		return
	}
	if all {
		in.arrived()
	}
	in.mu.Lock()
	var ps []position
	var cursors []*cursor
	for p, k := range in.parts {
		if k.sure >= 0 && k.sure != k.kept {
			ps, cursors = append(ps, position{topicPartition: p, offset: k.sure}), append(cursors, k)
		}
	}
	in.committed = in.srv.opts.Clock()
	in.mu.Unlock()
	if len(ps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := in.commit(ctx, ps); err != nil {
		in.srv.opts.Logger.Debug("a consumer instance could not commit", "group", in.group, "instance", in.name, "err", err)
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, k := range cursors {
		k.kept = ps[i].offset
	}
}

const (
	commitTimeout  = 10 * time.Second
	commitInterval = 5 * time.Second // auto.commit.interval.ms
)

// commit commits positions as the member of the group that the instance is, or as nobody's where
// partitions were assigned by the client.
func (in *instance) commit(ctx context.Context, ps []position) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, in.group, -1
	in.mu.Lock()
	if m := in.membership; m != nil {
		req.Generation, req.MemberID = m.generation, m.id
	}
	in.mu.Unlock()
	topics := map[string]int{}
	for _, p := range ps {
		i, ok := topics[p.Topic]
		if !ok {
			i = len(req.Topics)
			topics[p.Topic] = i
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic = p.Topic
			req.Topics = append(req.Topics, t)
		}
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.Metadata = p.Partition, int64(p.offset), p.metadata
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	resp, err := ask[*kmsg.OffsetCommitResponse](ctx, in.offsets, req)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == codeNotCoordinator {
				in.offsets.close()
			}
			if p.ErrorCode != 0 {
				return kafkaError(p.ErrorCode)
			}
		}
	}
	return nil
}

// close ends the instance, once. With sure the client has all that it was given.
func (in *instance) close(sure bool) {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	in.expiry.Stop()
	in.unsubscribe(sure)
	in.stop()
	in.member.close()
	in.offsets.close()
}

// principal is whose rights count: who made the instance, as it has logged in last.
func (in *instance) principal() router.Principal { return in.asCaller().Principal }

func (in *instance) asCaller() kafka.Caller {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.caller
}

// adopt has the instance go on as the same user, who may have logged in anew: with another password the
// connections to the coordinator end, and are made again.
func (in *instance) adopt(p router.Principal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.caller.Principal = p
}
