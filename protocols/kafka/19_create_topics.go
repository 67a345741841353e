package kafka

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// createTopics makes topics, or with ValidateOnly says whether it would.
func createTopics(ctx context.Context, c *call, req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	named := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	stale := c.fresh(ctx)
	cl := c.cluster()
	partitions := 0
	for i := range req.Topics {
		partitions += max(int(req.Topics[i].NumPartitions), len(req.Topics[i].ReplicaAssignment), 1)
	}
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(req.Topics))
	each(len(req.Topics), func(i int) {
		rt, t := &req.Topics[i], &resp.Topics[i]
		t.Default()
		t.Topic = rt.Topic
		t.NumPartitions, t.ReplicationFactor = -1, -1
		var topic *router.Topic
		var err error
		switch {
		case stale != nil:
			err = stale
		case named[rt.Topic] > 1:
			err = badRequest(codeInvalidRequest, "topic %s is named twice", rt.Topic)
		case partitions > maxNewPartitions:
			err = tooManyPartitions(partitions)
		default:
			topic, err = c.createTopic(ctx, &cl, rt, req.ValidateOnly)
		}
		if err != nil {
			t.ErrorCode, t.ErrorMessage = adminCode(err), message(err)
			return
		}
		t.TopicID = topic.ID
		t.NumPartitions, t.ReplicationFactor = int32(len(topic.Partitions)), int16(len(cl.voters))
		t.Configs = createdConfigs(c.srv.router, topic)
	})
	return resp
}

// maxNewPartitions bounds the partitions that one request may create, as Kafka does.
const maxNewPartitions = 10_000

func tooManyPartitions(n int) error {
	return badRequest(codePolicyViolation, "%d partitions in one request, at most %d are created", n, maxNewPartitions)
}

func (c *call) createTopic(ctx context.Context, cl *cluster, rt *kmsg.CreateTopicsRequestTopic, validateOnly bool) (*router.Topic, error) {
	spec := router.TopicSpec{Name: c.topicName(rt.Topic), Partitions: int(rt.NumPartitions), ValidateOnly: validateOnly}
	if err := router.CheckTopicName(rt.Topic); err != nil {
		return nil, badRequest(codeInvalidTopic, "%s", err.Error())
	}
	switch assigned := len(rt.ReplicaAssignment); {
	case assigned > 0 && (rt.NumPartitions != -1 || rt.ReplicationFactor != -1):
		return nil, badRequest(codeInvalidRequest, "replica assignment excludes numbers of partitions and replicas")
	case assigned > 0:
		spec.Partitions = assigned
		if err := checkAssignment(cl, rt.ReplicaAssignment); err != nil {
			return nil, err
		}
	case rt.NumPartitions == 0 || rt.NumPartitions < -1 || rt.NumPartitions > router.MaxPartitions:
		return nil, badRequest(codeInvalidPartitions, "number of partitions is %d, want 1 to %d", rt.NumPartitions, router.MaxPartitions)
	case rt.ReplicationFactor == 0 || rt.ReplicationFactor < -1 || int(rt.ReplicationFactor) > len(cl.voters):
		return nil, badRequest(codeInvalidReplicationFactor, "replication factor is %d, want 1 to the number of brokers, %d", rt.ReplicationFactor, len(cl.voters))
	}
	if len(rt.Configs) > 0 {
		spec.Configs = make(map[string]string, len(rt.Configs))
	}
	for i := range rt.Configs {
		if rt.Configs[i].Value == nil {
			return nil, badRequest(codeInvalidConfig, "null value for configuration %s", rt.Configs[i].Name)
		}
		spec.Configs[rt.Configs[i].Name] = *rt.Configs[i].Value
	}
	t, err := c.srv.router.CreateTopic(ctx, c.principal(), spec)
	if core.KindOf(err) == core.Invalid && !isConfigError(err) { // all else is checked above
		return nil, badRequest(codeInvalidTopic, "%s", err.Error())
	}
	return t, err
}

// checkAssignment accepts what the placement of a cluster that keeps everything
// everywhere can honour: partitions from 0 on, brokers that exist.
func checkAssignment(cl *cluster, assignment []kmsg.CreateTopicsRequestTopicReplicaAssignment) error {
	seen := make([]bool, len(assignment))
	for i := range assignment {
		a := &assignment[i]
		if a.Partition < 0 || int(a.Partition) >= len(seen) || seen[a.Partition] {
			return badRequest(codeInvalidReplicaAssignment, "partitions must be 0 to %d, each once", len(seen)-1)
		}
		seen[a.Partition] = true
		if err := checkReplicas(cl, a.Replicas); err != nil {
			return err
		}
	}
	return nil
}

func checkReplicas(cl *cluster, replicas []int32) error {
	if len(replicas) == 0 {
		return badRequest(codeInvalidReplicaAssignment, "no replica is assigned")
	}
	seen := make(map[int32]bool, len(replicas))
	for _, id := range replicas {
		if seen[id] {
			return badRequest(codeInvalidReplicaAssignment, "broker %d is assigned twice", id)
		}
		seen[id] = true
		known := false
		for _, n := range cl.nodes {
			known = known || n.id == id
		}
		if !known {
			return badRequest(codeInvalidReplicaAssignment, "broker %d does not exist", id)
		}
	}
	return nil
}

func createdConfigs(r *router.Router, t *router.Topic) []kmsg.CreateTopicsResponseTopicConfig {
	entries := r.DescribeTopicConfig(t)
	configs := make([]kmsg.CreateTopicsResponseTopicConfig, len(entries))
	for i, e := range entries {
		configs[i] = kmsg.CreateTopicsResponseTopicConfig{Name: e.Key.Name, ReadOnly: e.Key.ReadOnly, Source: int8(e.Source)}
		if !e.Unset {
			configs[i].Value = new(e.Value)
		}
	}
	return configs
}

// fresh has this node know everything that anybody was told is done, so that it refuses
// nothing by a state that is old, as a follower's may be. The error means that no leader
// confirms it, and is retriable.
func (c *call) fresh(ctx context.Context) error { return c.srv.router.Sync(ctx) }

// within bounds ctx by a request's own time-out.
func within(ctx context.Context, millis int32) (context.Context, context.CancelFunc) {
	if millis <= 0 {
		millis = math.MaxInt32
	}
	return context.WithTimeout(ctx, min(time.Duration(millis)*time.Millisecond, adminWait))
}

// adminWait is the longest that an administrative request may occupy its connection.
const adminWait = time.Minute

// requestError is an error with Kafka's own code.
type requestError struct {
	code int16
	err  error
}

func (e *requestError) Error() string { return e.err.Error() }

func badRequest(code int16, format string, args ...any) error {
	return &requestError{code, core.E(core.Invalid, format, args...)}
}

func isConfigError(err error) bool {
	_, ok := errors.AsType[*router.ConfigError](err)
	return ok
}

// adminCode is the code for a failed administrative request.
func adminCode(err error) int16 {
	if bad, ok := errors.AsType[*requestError](err); ok {
		return bad.code
	}
	if isConfigError(err) {
		return codeInvalidConfig
	}
	switch core.KindOf(err) {
	case core.Unavailable, core.NotLeader, core.Closed:
		return codeNotController // retriable, and makes admin clients look for another
	default:
		return code(err)
	}
}
