package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// autoCreateWait bounds how long a Metadata request waits for the topics that it makes.
const autoCreateWait = 5 * time.Second

// maxAutoCreate bounds the topics that one Metadata request makes. The others are
// answered as unknown, and made when the client asks again.
const maxAutoCreate = 100

// metadata tells who is who and which topics there are. Topics that do not exist yet
// are made first, where configuration and client allow it, so that the answer already
// names their leader: Kafka answers UNKNOWN_TOPIC_OR_PARTITION instead and leaves the
// client to ask again.
func metadata(ctx context.Context, c *call, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	cl := c.cluster()
	resp := kmsg.NewPtrMetadataResponse()
	resp.ClusterID, resp.ControllerID = &cl.id, cl.leader
	for _, n := range cl.nodes {
		resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: n.id, Host: n.host, Port: n.port, Rack: n.rack})
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = c.clusterOperations()
	}
	// Version 0 has no null array: an empty one means all topics.
	if req.Topics == nil || c.version == 0 && len(req.Topics) == 0 {
		for _, t := range c.srv.router.Topics(c.srv.opts.Namespace) {
			if c.may(router.OpDescribe, t.Name) == nil {
				if !c.grow(ctx, metadataBytes(t)) {
					return resp
				}
				resp.Topics = append(resp.Topics, c.metadataTopic(&cl, t, req.IncludeTopicAuthorizedOperations))
			}
		}
		return resp
	}
	asked := distinct(req.Topics)
	if c.unknown(asked) {
		c.catchUp(ctx)
	}
	made := (c.version < 4 || req.AllowAutoTopicCreation) && c.srv.router.BrokerConfig().AutoCreateTopics
	if made {
		c.autoCreate(ctx, asked)
	}
	for i := range asked {
		t, ok := c.metadataAsked(ctx, &cl, &asked[i], made, req.IncludeTopicAuthorizedOperations)
		if !ok {
			return resp
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// distinct drops repetitions, which would only make the answer longer.
func distinct(topics []kmsg.MetadataRequestTopic) []kmsg.MetadataRequestTopic {
	type key struct {
		name string
		id   core.TopicID
	}
	seen := make(map[key]bool, len(topics))
	kept := topics[:0]
	for _, t := range topics {
		k := key{id: t.TopicID}
		if t.Topic != nil {
			k.name = *t.Topic
		}
		if !seen[k] {
			seen[k] = true
			kept = append(kept, t)
		}
	}
	return kept
}

// unknown reports whether there is a topic among those that this node does not know.
func (c *call) unknown(asked []kmsg.MetadataRequestTopic) bool {
	return slices.ContainsFunc(asked, func(t kmsg.MetadataRequestTopic) bool {
		known, _ := c.topic(text(t.Topic), t.TopicID, t.Topic == nil)
		return known == nil
	})
}

// catchUp has a node that does not lead learn what was just done elsewhere, where the
// leader can be reached soon. Else the answer is what this node knows.
func (c *call) catchUp(ctx context.Context) {
	cl := c.cluster()
	if _, ok := cl.otherLeader(); !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	_ = c.fresh(ctx)
}

// catchUpWait bounds how long a request that only reads waits for news.
const catchUpWait = time.Second

// autoCreate makes the topics that are asked for by name and do not exist.
func (c *call) autoCreate(ctx context.Context, asked []kmsg.MetadataRequestTopic) {
	ctx, cancel := context.WithTimeout(ctx, autoCreateWait)
	defer cancel()
	var missing []core.Name
	for i := range asked {
		if len(missing) == maxAutoCreate {
			break
		}
		t := &asked[i]
		if t.Topic == nil || *t.Topic == "" || router.CheckTopicName(*t.Topic) != nil {
			continue
		}
		if topic, _ := c.topicFor(router.OpDescribe, *t.Topic, core.TopicID{}, false); topic == nil &&
			c.may(router.OpCreate, c.topicName(*t.Topic)) == nil {
			missing = append(missing, c.topicName(*t.Topic))
		}
	}
	each(len(missing), func(i int) {
		if ctx.Err() != nil {
			return // the answer says that the topic is unknown
		}
		_, err := c.srv.router.CreateTopic(ctx, c.principal(), router.TopicSpec{Name: missing[i], Partitions: -1})
		if err != nil && core.KindOf(err) != core.Exists {
			c.conn.log.Info("kafka topic not created automatically", "topic", missing[i].String(), "err", err)
		}
	})
}

// metadataAsked is the answer for one topic of a request, false when it is too large. made says that
// it was to be made where it was not there.
func (c *call) metadataAsked(ctx context.Context, cl *cluster, asked *kmsg.MetadataRequestTopic, made, operations bool) (_ kmsg.MetadataResponseTopic, ok bool) {
	name := ""
	if asked.Topic != nil {
		name = *asked.Topic
	}
	byID := asked.Topic == nil && c.version >= 10
	t, code := c.topicFor(router.OpDescribe, name, asked.TopicID, byID)
	if t == nil && !byID && code != codeTopicAuthorizationFailed && router.CheckTopicName(name) != nil {
		code = codeInvalidTopic
	}
	if code == codeUnknownTopicOrPartition && made && c.may(router.OpCreate, c.topicName(name)) != nil {
		code = codeTopicAuthorizationFailed // as Kafka: it would have been made
	}
	if t != nil {
		if !c.grow(ctx, metadataBytes(t)) {
			return kmsg.MetadataResponseTopic{}, false
		}
		return c.metadataTopic(cl, t, operations), true
	}
	resp := kmsg.NewMetadataResponseTopic()
	resp.ErrorCode = code
	resp.Topic = asked.Topic
	if byID {
		resp.TopicID = asked.TopicID
	}
	if resp.Topic == nil && c.version < 12 { // not nullable yet
		resp.Topic = &name
	}
	return resp, c.grow(ctx, elementBytes+len(name))
}

// metadataBytes is what a topic takes in an answer.
func metadataBytes(t *router.Topic) int { return elementBytes * (1 + len(t.Partitions)) }

func (c *call) metadataTopic(cl *cluster, t *router.Topic, operations bool) kmsg.MetadataResponseTopic {
	resp := kmsg.NewMetadataResponseTopic()
	resp.Topic = new(t.Name.Name)
	resp.TopicID, resp.IsInternal = t.ID, t.Internal
	resp.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range resp.Partitions {
		p := &resp.Partitions[i]
		p.Partition = int32(i)
		p.Leader, p.LeaderEpoch = cl.leader, cl.epoch
		p.Replicas, p.ISR, p.OfflineReplicas = cl.voters, cl.inSync, cl.away
	}
	if operations {
		resp.AuthorizedOperations = c.topicOperations(t.Name)
	}
	return resp
}
