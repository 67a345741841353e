package kafkarest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/router"
)

// membership keeps an instance in its group, by the protocol that all of Kafka's clients speak: it
// joins, gets its partitions (which the member that leads hands out, maybe this one), and says every
// few seconds that it is there.
type membership struct {
	in    *instance
	stop  context.CancelFunc
	wake  chan struct{} // of capacity 1: the subscription is another one
	ended chan struct{} // closed when run has returned

	// Guarded by in.mu; written by run alone.
	id         string
	generation int32
}

const (
	sessionTimeout   = 45 * time.Second // as Kafka's own client has it
	rebalanceTimeout = 60 * time.Second
	heartbeatEvery   = 3 * time.Second
	retryAfter       = 250 * time.Millisecond
	leaveTimeout     = 5 * time.Second
	rangeProtocol    = "range" // the one strategy, which every client knows
)

// changed says that the subscription is another one.
func (m *membership) changed() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run takes part until ctx ends.
func (m *membership) run(ctx context.Context) {
	defer close(m.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := m.takePart(ctx)
		m.revoke(ctx)
		wait := time.Duration(0) // the group is to be divided anew
		if err != nil {
			m.in.srv.opts.Logger.Debug("a consumer instance is out of its group", "group", m.in.group, "instance", m.in.name, "err", err)
			wait = retryAfter
		}
		timer.Reset(wait)
	}
}

// takePart joins and stays until the group is to be divided anew (nil), something went wrong, or ctx
// ends.
func (m *membership) takePart(ctx context.Context) error {
	topics := m.topics()
	joined, err := m.join(ctx, topics)
	if err != nil {
		return err
	}
	plan, counts := m.plan(joined)
	assigned, err := m.sync(ctx, plan)
	if err != nil {
		return err
	}
	parts, err := m.in.cursors(ctx, assigned)
	if err != nil {
		return err
	}
	m.in.replace(parts)
	timer := time.NewTicker(heartbeatEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		case <-timer.C:
		}
		if !slices.Equal(topics, m.topics()) || counts != nil && !maps.Equal(counts, m.counts(counts)) {
			return nil
		}
		if again, err := m.heartbeat(ctx); again || err != nil {
			return err
		}
	}
}

// topics are those that the instance wants now, by name.
func (m *membership) topics() []string {
	m.in.mu.Lock()
	topics, pattern := slices.Clone(m.in.topics), m.in.pattern
	m.in.mu.Unlock()
	if pattern != nil {
		for _, t := range m.in.srv.router.Topics(topicName("").Namespace) {
			if !t.Internal && pattern.MatchString(t.Name.Name) && m.mayRead(t.Name) {
				topics = append(topics, t.Name.Name)
			}
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

func (m *membership) mayRead(n core.Name) bool {
	return m.in.srv.router.Authorize(m.in.principal(), router.OpRead, router.Resource{Kind: router.ResourceTopic, Name: n}) == nil
}

// identity is who the member is; the id is empty before the coordinator gave it one.
func (m *membership) identity() (id string, generation int32) {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	return m.id, m.generation
}

func (m *membership) setID(id string) {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	m.id = id
}

func (m *membership) setGeneration(g int32) {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	m.generation = g
}

// failed is what an error code means for the membership.
func (m *membership) failed(code int16) error {
	switch code {
	case 0:
		return nil
	case codeUnknownMember:
		m.setID("")
	case codeNotCoordinator:
		m.in.member.close()
	}
	return kafkaError(code)
}

// join takes part in the division of the group's partitions, which waits for the other members.
func (m *membership) join(ctx context.Context, topics []string) (*kmsg.JoinGroupResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, rebalanceTimeout+front.CallTimeout)
	defer cancel()
	for {
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Version, meta.Topics = 1, topics
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = rangeProtocol, meta.AppendTo(nil)
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType = 5, m.in.group, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(sessionTimeout.Milliseconds()), int32(rebalanceTimeout.Milliseconds())
		req.MemberID, _ = m.identity()
		req.Protocols = []kmsg.JoinGroupRequestProtocol{p}
		resp, err := ask[*kmsg.JoinGroupResponse](ctx, m.in.member, req)
		switch {
		case err != nil:
			return nil, err
		case resp.ErrorCode == codeMemberIDRequired:
			m.setID(resp.MemberID)
			continue
		}
		if err := m.failed(resp.ErrorCode); err != nil {
			return nil, err
		}
		m.setID(resp.MemberID)
		m.setGeneration(resp.Generation)
		return resp, nil
	}
}

// plan divides the partitions, where this member leads: for each topic every member that wants it gets
// a range. counts are the partitions that it is about; nil where another member leads.
func (m *membership) plan(joined *kmsg.JoinGroupResponse) (plan []kmsg.SyncGroupRequestGroupAssignment, counts map[string]int) {
	if joined.LeaderID != joined.MemberID {
		return nil, nil
	}
	wanted := map[string][]string{} // topic to members
	given := map[string]*kmsg.ConsumerMemberAssignment{}
	for _, one := range joined.Members {
		var meta kmsg.ConsumerMemberMetadata
		if meta.ReadFrom(one.ProtocolMetadata) != nil {
			meta.Topics = nil // it gets nothing
		}
		a := kmsg.NewConsumerMemberAssignment()
		given[one.MemberID] = &a
		for _, t := range meta.Topics {
			wanted[t] = append(wanted[t], one.MemberID)
		}
	}
	counts = map[string]int{}
	for t := range wanted {
		counts[t] = 0
	}
	counts = m.counts(counts)
	for _, t := range slices.Sorted(maps.Keys(wanted)) {
		members := wanted[t]
		slices.Sort(members)
		members = slices.Compact(members)
		first := 0
		for i, id := range members {
			n := counts[t] / len(members)
			if i < counts[t]%len(members) {
				n++
			}
			if n > 0 {
				at := kmsg.NewConsumerMemberAssignmentTopic()
				at.Topic = t
				for p := first; p < first+n; p++ {
					at.Partitions = append(at.Partitions, int32(p))
				}
				given[id].Topics = append(given[id].Topics, at)
			}
			first += n
		}
	}
	for id, a := range given {
		g := kmsg.NewSyncGroupRequestGroupAssignment()
		g.MemberID, g.MemberAssignment = id, a.AppendTo(nil)
		plan = append(plan, g)
	}
	return plan, counts
}

// counts are how many partitions the topics have that of has.
func (m *membership) counts(of map[string]int) map[string]int {
	counts := make(map[string]int, len(of))
	for name := range of {
		counts[name] = 0
		if t, ok := m.in.srv.router.Topic(topicName(name)); ok {
			counts[name] = len(t.Partitions)
		}
	}
	return counts
}

// sync gets what this member was given.
func (m *membership) sync(ctx context.Context, plan []kmsg.SyncGroupRequestGroupAssignment) (ps []topicPartition, err error) {
	ctx, cancel := context.WithTimeout(ctx, rebalanceTimeout+front.CallTimeout)
	defer cancel()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.GroupAssignment = 3, m.in.group, plan
	req.MemberID, req.Generation = m.identity()
	resp, err := ask[*kmsg.SyncGroupResponse](ctx, m.in.member, req)
	if err == nil {
		err = m.failed(resp.ErrorCode)
	}
	if err != nil || len(resp.MemberAssignment) == 0 {
		return nil, err
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(resp.MemberAssignment); err != nil {
		return nil, err
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			ps = append(ps, topicPartition{t.Topic, p})
		}
	}
	return ps, nil
}

// heartbeat says that the member is there. again is true where the group is to be divided anew.
func (m *membership) heartbeat(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, front.CallTimeout)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group = 3, m.in.group
	req.MemberID, req.Generation = m.identity()
	resp, err := ask[*kmsg.HeartbeatResponse](ctx, m.in.member, req)
	switch {
	case err != nil:
		return false, err
	case resp.ErrorCode == codeRebalanceInProgress:
		return true, nil
	}
	return false, m.failed(resp.ErrorCode)
}

// revoke gives up what was assigned, before somebody else may have it.
func (m *membership) revoke(ctx context.Context) {
	if ctx.Err() != nil {
		return // unsubscribe does
	}
	m.in.autoCommit(ctx, false)
	m.in.replace(nil)
	m.forget()
}

// forget forgets the generation of a member that has no id any more.
func (m *membership) forget() {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	if m.id == "" {
		m.generation = -1
	}
}

// leave tells the coordinator that the member is gone, so that others need not wait for its time-out.
func (m *membership) leave() {
	id, _ := m.identity()
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.in.ctx), leaveTimeout)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 3, m.in.group
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID = id
	req.Members = []kmsg.LeaveGroupRequestMember{one}
	resp, err := ask[*kmsg.LeaveGroupResponse](ctx, m.in.member, req)
	if err == nil && resp.ErrorCode != 0 {
		err = kafkaError(resp.ErrorCode)
	}
	if err != nil {
		m.in.srv.opts.Logger.Debug("a consumer instance could not leave its group", "group", m.in.group, "instance", m.in.name, "err", err)
	}
}
