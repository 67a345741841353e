package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// createPartitions gives topics more partitions.
func createPartitions(ctx context.Context, c *call, req *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	named := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	stale := c.fresh(ctx)
	cl := c.cluster()
	resp := kmsg.NewPtrCreatePartitionsResponse()
	for i := range req.Topics {
		rt := &req.Topics[i]
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic = rt.Topic
		err := stale
		if err == nil && named[rt.Topic] > 1 {
			err = badRequest(codeInvalidRequest, "topic %s is named twice", rt.Topic)
		}
		if err == nil {
			err = c.createPartitions(ctx, &cl, rt, req.ValidateOnly)
		}
		if err != nil {
			t.ErrorCode, t.ErrorMessage = adminCode(err), message(err)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (c *call) createPartitions(ctx context.Context, cl *cluster, rt *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	name := c.topicName(rt.Topic)
	if err := c.may(router.OpAlter, name); err != nil {
		return err
	}
	t, ok := c.srv.router.Topic(name)
	if !ok {
		return badRequest(codeUnknownTopicOrPartition, "topic %s does not exist", rt.Topic)
	}
	if n := int(rt.Count) - len(t.Partitions); n > maxNewPartitions {
		return tooManyPartitions(n)
	}
	if rt.Assignment != nil && len(rt.Assignment) != int(rt.Count)-len(t.Partitions) {
		return badRequest(codeInvalidReplicaAssignment, "%d partitions are added, %d assigned", int(rt.Count)-len(t.Partitions), len(rt.Assignment))
	}
	for i := range rt.Assignment {
		if err := checkReplicas(cl, rt.Assignment[i].Replicas); err != nil {
			return err
		}
	}
	_, err := c.srv.router.CreatePartitions(ctx, c.principal(), name, int(rt.Count), validateOnly)
	if core.KindOf(err) == core.Invalid {
		return badRequest(codeInvalidPartitions, "%s", err.Error())
	}
	return err
}
