package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// describeLogDirs tells how many bytes of each partition are live. All partitions share
// one log, so this is what they refer to in it, not what they occupy.
func describeLogDirs(ctx context.Context, c *call, req *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	if c.mayCluster(router.OpDescribe) != nil {
		resp.ErrorCode = codeClusterAuthorizationFailed
		return resp
	}
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = c.srv.opts.DataDir
	dir.TotalBytes, dir.UsableBytes = -1, -1
	seen := once[partition]{}
	add := func(t *router.Topic, partitions []int32) {
		dt := kmsg.NewDescribeLogDirsResponseDirTopic()
		dt.Topic = t.Name.Name
		if !c.grow(ctx, elementBytes+len(dt.Topic)) {
			return
		}
		for _, n := range partitions {
			q, ok := t.Queue(n)
			if !ok || !seen.first(partition{dt.Topic, n}) {
				continue
			}
			if !c.grow(ctx, elementBytes) {
				return
			}
			head, err := c.srv.router.Head(q)
			if err != nil {
				continue // deleted meanwhile
			}
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size = n, head.Bytes
			dt.Partitions = append(dt.Partitions, p)
		}
		dir.Topics = append(dir.Topics, dt)
	}
	if req.Topics == nil {
		for _, t := range c.srv.router.Topics(c.srv.opts.Namespace) {
			add(t, numbers(len(t.Partitions)))
		}
	}
	for i := range req.Topics {
		if t, _ := c.topic(req.Topics[i].Topic, core.TopicID{}, false); t != nil {
			add(t, req.Topics[i].Partitions)
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}

// numbers is 0 to n-1.
func numbers(n int) []int32 {
	ns := make([]int32, n)
	for i := range ns {
		ns[i] = int32(i)
	}
	return ns
}
