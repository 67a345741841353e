package kafkarest

import (
	"cmp"
	"slices"
	"strconv"

	"polylog/core"
	"polylog/protocols/http/publish"
	"polylog/router"
)

// topicJSON is a topic in version 2.
type topicJSON struct {
	Name       string            `json:"name"`
	Configs    map[string]string `json:"configs"`
	Partitions []partitionJSON   `json:"partitions"`
}

// partitionJSON is a partition in version 2.
type partitionJSON struct {
	Partition int           `json:"partition"`
	Leader    int32         `json:"leader"`
	Replicas  []replicaJSON `json:"replicas"`
}

type replicaJSON struct {
	Broker int32 `json:"broker"`
	Leader bool  `json:"leader"`
	InSync bool  `json:"in_sync"`
}

func listBrokers(c *call) error {
	answer := struct {
		Brokers []int32 `json:"brokers"`
	}{[]int32{}}
	for _, m := range c.router.Cluster().Members {
		if !m.Away {
			answer.Brokers = append(answer.Brokers, core.BrokerID(m.ID))
		}
	}
	slices.Sort(answer.Brokers)
	return c.answer(200, answer)
}

// topics are those that the caller may see, by name.
func (c *call) topics() []*router.Topic {
	all := c.router.Topics(core.DefaultNamespace)
	all = slices.DeleteFunc(all, func(t *router.Topic) bool {
		return c.may(router.OpDescribe, router.ResourceTopic, t.Name) != nil
	})
	slices.SortFunc(all, func(a, b *router.Topic) int { return cmp.Compare(a.Name.Name, b.Name.Name) })
	return all
}

// topic is the topic of the path, if the caller may do op with it.
func (c *call) topic(op router.Operation) (*router.Topic, error) {
	n := topicName(c.params.Get("topic"))
	if err := c.may(op, router.ResourceTopic, n); err != nil {
		return nil, err
	}
	t, err := publish.Find(c.ctx, c.router, n)
	if k := core.KindOf(err); k == core.NotFound || k == core.Invalid {
		return nil, errTopicNotFound
	}
	return t, err
}

// partition is the partition of the path.
func (c *call) partition(t *router.Topic) (int32, error) {
	n, err := strconv.ParseInt(c.params.Get("partition"), 10, 32)
	if err != nil {
		return 0, &refusal{404, "HTTP 404 Not Found"}
	}
	if n < 0 || int(n) >= len(t.Partitions) {
		return 0, errPartitionNotFound
	}
	return int32(n), nil
}

func listTopics(c *call) error {
	names := []string{}
	for _, t := range c.topics() {
		names = append(names, t.Name.Name)
	}
	return c.answer(200, names)
}

func getTopic(c *call) error {
	t, err := c.topic(router.OpDescribe)
	if err != nil {
		return err
	}
	answer := topicJSON{Name: t.Name.Name, Configs: map[string]string{}, Partitions: c.partitions(t)}
	if c.may(router.OpDescribeConfigs, router.ResourceTopic, t.Name) == nil {
		for _, e := range c.router.DescribeTopicConfig(t) {
			if !e.Unset {
				answer.Configs[e.Key.Name] = e.Value
			}
		}
	}
	return c.answer(200, answer)
}

// partitions are those of a topic. All are replicated alike: by the cluster's one log.
func (c *call) partitions(t *router.Topic) []partitionJSON {
	info := c.router.Cluster()
	one := partitionJSON{Leader: -1, Replicas: []replicaJSON{}}
	for _, m := range info.Members {
		if !m.Voter {
			continue
		}
		r := replicaJSON{Broker: core.BrokerID(m.ID), InSync: !m.Away, Leader: info.HasLeader && m.ID == info.Leader.ID}
		if r.Leader {
			one.Leader = r.Broker
		}
		one.Replicas = append(one.Replicas, r)
	}
	all := make([]partitionJSON, len(t.Partitions))
	for i := range all {
		one.Partition = i
		all[i] = one
	}
	return all
}

func listPartitions(c *call) error {
	t, err := c.topic(router.OpDescribe)
	if err != nil {
		return err
	}
	return c.answer(200, c.partitions(t))
}

func getPartition(c *call) error {
	t, err := c.topic(router.OpDescribe)
	if err != nil {
		return err
	}
	p, err := c.partition(t)
	if err != nil {
		return err
	}
	return c.answer(200, c.partitions(t)[p])
}

func getOffsets(c *call) error {
	t, err := c.topic(router.OpDescribe)
	if err != nil {
		return err
	}
	p, err := c.partition(t)
	if err != nil {
		return err
	}
	h, err := c.router.Head(t.Partitions[p])
	if err != nil {
		return err
	}
	return c.answer(200, struct {
		Beginning core.Offset `json:"beginning_offset"`
		End       core.Offset `json:"end_offset"`
	}{h.Start, h.End})
}
