package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is what the server does with the requests of one API key.
type api struct {
	key      kmsg.Key
	min, max int16 // versions that are served
	handle   handler
	flags    apiFlags
}

type apiFlags uint8

const (
	// hasRecords marks the requests that carry records: they may be large, and, decoded,
	// alias the frame's buffer, which lives until the call ends.
	hasRecords apiFlags = 1 << iota
	// keepsFrame marks requests with byte slices, which alias the frame's buffer: it lives
	// until the call ends or parks.
	keepsFrame
	// lean marks requests whose decoded form is not much larger than their frame.
	lean
	// advertiseFromZero shows version 0 as the lowest although min is served:
	// librdkafka turns compression off when Produce starts above 0 (KAFKA-18659).
	advertiseFromZero
)

// handler serves a decoded request. It must see to it that the call is answered, and
// may leave that to another goroutine; while it runs, nothing more is read from the
// connection. ctx ends with the connection.
type handler func(ctx context.Context, c *call, req kmsg.Request)

// later makes a handler of a function that answers by c.reply, sooner or later.
func later[Q kmsg.Request](fn func(ctx context.Context, c *call, req Q)) handler {
	return func(ctx context.Context, c *call, req kmsg.Request) { fn(ctx, c, req.(Q)) }
}

// now makes a handler of a function that returns its answer, or whatever when it may not
// grow as far as it should.
func now[Q kmsg.Request, R kmsg.Response](fn func(ctx context.Context, c *call, req Q) R) handler {
	return func(ctx context.Context, c *call, req kmsg.Request) {
		resp := fn(ctx, c, req.(Q))
		if err := c.settle(); err != nil {
			c.fail(err)
			return
		}
		c.reply(resp)
	}
}

// table lists everything that the server serves. ApiVersions advertises exactly this.
func table() []api {
	return []api{
		{key: kmsg.Produce, min: produceMin, max: produceMax, handle: later(produce), flags: hasRecords | advertiseFromZero},
		{key: kmsg.Fetch, min: fetchMin, max: fetchMax, handle: later(fetch), flags: lean},
		{key: kmsg.ListOffsets, min: 1, max: 11, handle: now(listOffsets)},
		{key: kmsg.Metadata, min: 0, max: 13, handle: now(metadata)},
		{key: kmsg.OffsetCommit, min: 2, max: 10, handle: now(offsetCommit)},
		{key: kmsg.OffsetFetch, min: 1, max: 10, handle: now(offsetFetch)},
		{key: kmsg.FindCoordinator, min: 0, max: 6, handle: now(findCoordinator)},
		{key: kmsg.JoinGroup, min: 0, max: 9, handle: later(joinGroup), flags: lean | keepsFrame},
		{key: kmsg.Heartbeat, min: 0, max: 4, handle: now(heartbeat)},
		{key: kmsg.LeaveGroup, min: 0, max: 5, handle: now(leaveGroup)},
		{key: kmsg.SyncGroup, min: 0, max: 5, handle: later(syncGroup), flags: lean | keepsFrame},
		{key: kmsg.DescribeGroups, min: 0, max: 6, handle: now(describeGroups)},
		{key: kmsg.ListGroups, min: 0, max: 5, handle: now(listGroups)},
		{key: kmsg.SASLHandshake, min: 0, max: 1, handle: now(saslHandshake)},
		{key: kmsg.ApiVersions, min: 0, max: 5, handle: later(apiVersions)},
		{key: kmsg.CreateTopics, min: 2, max: 7, handle: now(createTopics)},
		{key: kmsg.DeleteTopics, min: 1, max: 6, handle: now(deleteTopics)},
		{key: kmsg.DeleteRecords, min: 0, max: 2, handle: now(deleteRecords)},
		{key: kmsg.InitProducerID, min: 0, max: 5, handle: now(initProducerID)},
		{key: kmsg.OffsetForLeaderEpoch, min: 2, max: 4, handle: now(offsetForLeaderEpoch)},
		{key: kmsg.DescribeACLs, min: 1, max: 3, handle: now(describeACLs)},
		{key: kmsg.CreateACLs, min: 1, max: 3, handle: now(createACLs)},
		{key: kmsg.DeleteACLs, min: 1, max: 3, handle: now(deleteACLs)},
		{key: kmsg.DescribeConfigs, min: 1, max: 4, handle: now(describeConfigs)},
		{key: kmsg.AlterConfigs, min: 0, max: 2, handle: now(alterConfigs)},
		{key: kmsg.DescribeLogDirs, min: 1, max: 5, handle: now(describeLogDirs)},
		{key: kmsg.SASLAuthenticate, min: 0, max: 2, handle: now(saslAuthenticate), flags: lean | keepsFrame},
		{key: kmsg.CreatePartitions, min: 0, max: 3, handle: now(createPartitions)},
		{key: kmsg.DeleteGroups, min: 0, max: 3, handle: now(deleteGroups)},
		{key: kmsg.ElectLeaders, min: 0, max: 2, handle: now(electLeaders)},
		{key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, handle: now(incrementalAlterConfigs)},
		{key: kmsg.ListPartitionReassignments, min: 0, max: 0, handle: now(listPartitionReassignments)},
		{key: kmsg.OffsetDelete, min: 0, max: 0, handle: now(offsetDelete)},
		{key: kmsg.DescribeClientQuotas, min: 0, max: 1, handle: now(describeClientQuotas)},
		{key: kmsg.DescribeUserSCRAMCredentials, min: 0, max: 0, handle: now(describeUserSCRAMCredentials)},
		{key: kmsg.AlterUserSCRAMCredentials, min: 0, max: 0, handle: now(alterUserSCRAMCredentials), flags: keepsFrame},
		{key: kmsg.DescribeCluster, min: 0, max: 2, handle: now(describeCluster)},
		{key: kmsg.ConsumerGroupHeartbeat, min: 0, max: 1, handle: now(consumerGroupHeartbeat)},
		{key: kmsg.ConsumerGroupDescribe, min: 0, max: 1, handle: now(consumerGroupDescribe)},
		{key: kmsg.DescribeProducers, min: 0, max: 0, handle: now(describeProducers)},
		{key: kmsg.ListConfigResources, min: 0, max: 1, handle: now(listConfigResources)},
		{key: kmsg.DescribeTopicPartitions, min: 0, max: 0, handle: now(describeTopicPartitions)},
	}
}

// apiTable finds an API by its key.
type apiTable []*api

func newAPITable() apiTable {
	t := make(apiTable, kmsg.MaxKey+1)
	for _, a := range table() {
		t[a.key] = &a
	}
	return t
}

// lookup returns the API with a key that came off the wire, nil when it is not served.
func (t apiTable) lookup(key int16) *api {
	if key < 0 || int(key) >= len(t) {
		return nil
	}
	return t[key]
}

func (a *api) serves(version int16) bool {
	return version >= a.advertisedMin() && version <= a.max
}

func (a *api) advertisedMin() int16 {
	if a.is(advertiseFromZero) {
		return 0
	}
	return a.min
}

// is reports whether the API has a flag.
func (a *api) is(f apiFlags) bool { return a.flags&f != 0 }

// Decoded, a request may take many times the bytes of its frame: up to 25 were measured
// for empty topics in Metadata. The budget of memory counts with these.
const (
	decodedWeight     = 16
	decodedLeanWeight = 4
)

// weight is what a frame of n bytes counts for in the server's budget.
func (a *api) weight(n int) int64 {
	switch {
	case a.is(hasRecords):
		return int64(n)
	case a.is(lean):
		return int64(n) * decodedLeanWeight
	default:
		return int64(n) * decodedWeight
	}
}

var producePool = sync.Pool{New: func() any { return kmsg.NewPtrProduceRequest() }}

// request makes an empty request of a version that is served.
func (a *api) request(version int16) kmsg.Request {
	var req kmsg.Request
	if a.key == kmsg.Produce {
		req = producePool.Get().(*kmsg.ProduceRequest)
	} else {
		req = a.key.Request()
	}
	req.SetVersion(version)
	return req
}

// decode fills req from body.
func (a *api) decode(req kmsg.Request, body []byte) error {
	if p, ok := req.(*kmsg.ProduceRequest); ok {
		return p.UnsafeReadFrom(body)
	}
	return req.ReadFrom(body)
}
