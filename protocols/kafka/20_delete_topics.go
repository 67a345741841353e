package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// deleteTopicsByID is the first version that names topics by id, too.
const deleteTopicsByID = 6

// deleteTopics deletes topics with all that is in them.
func deleteTopics(ctx context.Context, c *call, req *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	stale := c.fresh(ctx)
	asked := req.Topics
	if c.version < deleteTopicsByID {
		asked = make([]kmsg.DeleteTopicsRequestTopic, len(req.TopicNames))
		for i := range req.TopicNames {
			asked[i].Topic = &req.TopicNames[i]
		}
	}
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, len(asked))
	each(len(asked), func(i int) {
		t := &resp.Topics[i]
		t.Default()
		t.Topic, t.TopicID = asked[i].Topic, asked[i].TopicID
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		if stale != nil {
			t.ErrorCode, t.ErrorMessage = adminCode(stale), message(stale)
			return
		}
		topic, code := c.topicFor(router.OpDescribe, name, t.TopicID, t.Topic == nil)
		if topic == nil {
			t.ErrorCode = code
			return
		}
		if t.Topic == nil {
			t.Topic = new(topic.Name.Name)
		}
		t.TopicID = topic.ID
		if err := c.srv.router.DeleteTopic(ctx, c.principal(), topic.Name); err != nil {
			t.ErrorCode, t.ErrorMessage = adminCode(err), message(err)
			if c.version >= 3 && errors.Is(err, router.ErrDeletionDisabled) {
				t.ErrorCode = codeTopicDeletionDisabled
			}
		}
	})
	return resp
}
