package kafkarest

import (
	"strconv"

	"polylog/core"
	"polylog/router"
)

// What version 3 says of a cluster and its topics: as much as programs that produce records look
// at. Resources are named by links; those to what is not served lead nowhere.

type metadataJSON struct {
	Self string  `json:"self"`
	Name string  `json:"resource_name,omitempty"`
	Next *string `json:"next,omitempty"`
}

type relatedJSON struct {
	Related string `json:"related"`
}

// listJSON is a list of resources, which is never in pages.
type listJSON[T any] struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Self string  `json:"self"`
		Next *string `json:"next"`
	} `json:"metadata"`
	Data []T `json:"data"`
}

type clusterJSON struct {
	Kind           string       `json:"kind"`
	Metadata       metadataJSON `json:"metadata"`
	ClusterID      string       `json:"cluster_id"`
	Controller     *relatedJSON `json:"controller,omitempty"`
	ACLs           relatedJSON  `json:"acls"`
	Brokers        relatedJSON  `json:"brokers"`
	BrokerConfigs  relatedJSON  `json:"broker_configs"`
	ConsumerGroups relatedJSON  `json:"consumer_groups"`
	Topics         relatedJSON  `json:"topics"`
	Reassignments  relatedJSON  `json:"partition_reassignments"`
}

type topicV3JSON struct {
	Kind          string       `json:"kind"`
	Metadata      metadataJSON `json:"metadata"`
	ClusterID     string       `json:"cluster_id"`
	TopicName     string       `json:"topic_name"`
	Internal      bool         `json:"is_internal"`
	Replication   int          `json:"replication_factor"`
	Partitions    int          `json:"partitions_count"`
	Relation      relatedJSON  `json:"partitions"`
	Configs       relatedJSON  `json:"configs"`
	Reassignments relatedJSON  `json:"partition_reassignments"`
	Operations    []string     `json:"authorized_operations"`
}

type partitionV3JSON struct {
	Kind         string       `json:"kind"`
	Metadata     metadataJSON `json:"metadata"`
	ClusterID    string       `json:"cluster_id"`
	TopicName    string       `json:"topic_name"`
	Partition    int          `json:"partition_id"`
	Leader       *relatedJSON `json:"leader,omitempty"`
	Replicas     relatedJSON  `json:"replicas"`
	Reassignment relatedJSON  `json:"reassignment"`
}

// link is where a resource below the cluster is; without parts it is the cluster itself.
func (c *call) link(parts ...string) string {
	return c.base() + "v3/clusters/" + joined(append([]string{c.router.Cluster().ClusterID}, parts...))
}

// cluster refuses the path's cluster where it is another one.
func (c *call) cluster() error {
	if c.params.Get("cluster") != c.router.Cluster().ClusterID {
		return &refusal{404, "HTTP 404 Not Found"}
	}
	return nil
}

func (c *call) clusterJSON() clusterJSON {
	info := c.router.Cluster()
	j := clusterJSON{
		Kind: "KafkaCluster", Metadata: metadataJSON{Self: c.link(), Name: "crn:///kafka=" + info.ClusterID}, ClusterID: info.ClusterID,
		ACLs: relatedJSON{c.link("acls")}, Brokers: relatedJSON{c.link("brokers")}, BrokerConfigs: relatedJSON{c.link("broker-configs")},
		ConsumerGroups: relatedJSON{c.link("consumer-groups")}, Topics: relatedJSON{c.link("topics")},
		Reassignments: relatedJSON{c.link("topics", "-", "partitions", "-", "reassignment")},
	}
	if info.HasLeader {
		j.Controller = &relatedJSON{c.link("brokers", strconv.Itoa(int(core.BrokerID(info.Leader.ID))))}
	}
	return j
}

func listClusters(c *call) error {
	l := listJSON[clusterJSON]{Kind: "KafkaClusterList", Data: []clusterJSON{c.clusterJSON()}}
	l.Metadata.Self = c.base() + "v3/clusters"
	return c.answer(200, l)
}

func getCluster(c *call) error {
	if err := c.cluster(); err != nil {
		return err
	}
	return c.answer(200, c.clusterJSON())
}

func (c *call) topicV3(t *router.Topic) topicV3JSON {
	id, name := c.router.Cluster().ClusterID, t.Name.Name
	j := topicV3JSON{
		Kind: "KafkaTopic", Metadata: metadataJSON{Self: c.link("topics", name), Name: "crn:///kafka=" + id + "/topic=" + name},
		ClusterID: id, TopicName: name, Internal: t.Internal, Partitions: len(t.Partitions),
		Relation: relatedJSON{c.link("topics", name, "partitions")}, Configs: relatedJSON{c.link("topics", name, "configs")},
		Reassignments: relatedJSON{c.link("topics", name, "partitions", "-", "reassignment")}, Operations: []string{},
	}
	for _, m := range c.router.Cluster().Members {
		if m.Voter {
			j.Replication++
		}
	}
	return j
}

func listTopicsV3(c *call) error {
	if err := c.cluster(); err != nil {
		return err
	}
	l := listJSON[topicV3JSON]{Kind: "KafkaTopicList", Data: []topicV3JSON{}}
	l.Metadata.Self = c.link("topics")
	for _, t := range c.topics() {
		l.Data = append(l.Data, c.topicV3(t))
	}
	return c.answer(200, l)
}

// topicOf finds the path's topic in the words of version 3.
func (c *call) topicOf(op router.Operation) (*router.Topic, error) {
	if err := c.cluster(); err != nil {
		return nil, err
	}
	t, err := c.topic(op)
	if err == errTopicNotFound { //nolint:errorlint // our own, as it is
		return nil, errNoSuchTopicV3
	}
	return t, err
}

func getTopicV3(c *call) error {
	t, err := c.topicOf(router.OpDescribe)
	if err != nil {
		return err
	}
	return c.answer(200, c.topicV3(t))
}

// maxDefinition bounds bodies that describe something, in bytes.
const maxDefinition = 256 << 10

func createTopicV3(c *call) error {
	if err := c.cluster(); err != nil {
		return err
	}
	request := struct {
		TopicName   string            `json:"topic_name"`
		Partitions  *int              `json:"partitions_count"`
		Replication *int              `json:"replication_factor"` // all nodes have everything
		Assignments map[string][]int  `json:"replicas_assignments"`
		Configs     []configEntryJSON `json:"configs"`
		Validate    bool              `json:"validate_only"`
	}{}
	there, err := c.decode(maxDefinition, &request)
	switch {
	case err != nil:
		return err
	case !there:
		return &refusal{42206, "Payload error. Request body is empty. Data is required."}
	case router.CheckTopicName(request.TopicName) != nil:
		return &refusal{42206, "Payload error. Invalid topic name."}
	}
	spec := router.TopicSpec{Name: topicName(request.TopicName), Partitions: -1, Configs: map[string]string{}, ValidateOnly: request.Validate}
	if n := len(request.Assignments); n > 0 {
		spec.Partitions = n
	}
	if request.Partitions != nil {
		if spec.Partitions = *request.Partitions; spec.Partitions < 1 {
			return &refusal{40002, "Number of partitions must be larger than 0."}
		}
	}
	for _, e := range request.Configs {
		if e.Value != nil {
			spec.Configs[e.Name] = *e.Value
		}
	}
	t, err := c.router.CreateTopic(c.ctx, c.principal, spec)
	if core.KindOf(err) == core.Exists {
		return &refusal{40002, "Topic '" + request.TopicName + "' already exists."}
	}
	if err != nil {
		return err
	}
	c.Response.Header.Set("Location", c.link("topics", request.TopicName))
	if request.Validate {
		return c.answer(200, c.topicV3(t))
	}
	return c.answer(201, c.topicV3(t))
}

type configEntryJSON struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

func deleteTopicV3(c *call) error {
	t, err := c.topicOf(router.OpDelete)
	if err != nil {
		return err
	}
	if err := c.router.DeleteTopic(c.ctx, c.principal, t.Name); err != nil {
		if core.KindOf(err) == core.NotFound {
			return errNoSuchTopicV3
		}
		return err
	}
	return c.noContent()
}

func (c *call) partitionV3(t *router.Topic, p int) partitionV3JSON {
	info, name, index := c.router.Cluster(), t.Name.Name, strconv.Itoa(p)
	j := partitionV3JSON{
		Kind: "KafkaPartition", ClusterID: info.ClusterID, TopicName: name, Partition: p,
		Metadata: metadataJSON{Self: c.link("topics", name, "partitions", index), Name: "crn:///kafka=" + info.ClusterID + "/topic=" + name + "/partition=" + index},
		Replicas: relatedJSON{c.link("topics", name, "partitions", index, "replicas")}, Reassignment: relatedJSON{c.link("topics", name, "partitions", index, "reassignment")},
	}
	if info.HasLeader {
		j.Leader = &relatedJSON{c.link("topics", name, "partitions", index, "replicas", strconv.Itoa(int(core.BrokerID(info.Leader.ID))))}
	}
	return j
}

func listPartitionsV3(c *call) error {
	t, err := c.topicOf(router.OpDescribe)
	if err != nil {
		return err
	}
	l := listJSON[partitionV3JSON]{Kind: "KafkaPartitionList", Data: []partitionV3JSON{}}
	l.Metadata.Self = c.link("topics", t.Name.Name, "partitions")
	for i := range t.Partitions {
		l.Data = append(l.Data, c.partitionV3(t, i))
	}
	return c.answer(200, l)
}

func getPartitionV3(c *call) error {
	t, err := c.topicOf(router.OpDescribe)
	if err != nil {
		return err
	}
	p, err := c.partition(t)
	if err != nil {
		return err
	}
	return c.answer(200, c.partitionV3(t, int(p)))
}
