package main

import (
	"strings"

	"github.com/segmentio/kafka-go"

	"polylog/compat/kafka/clients/proto"
)

// first gives the error of a request's only subject.
func first(sub map[string]error) error {
	for _, e := range sub {
		if e != nil {
			return e
		}
	}
	return nil
}

func (d *driver) create(a proto.Args) (proto.Args, error) {
	t := kafka.TopicConfig{Topic: a["topic"], NumPartitions: int(a.Int("parts")), ReplicationFactor: 1}
	if k, v, ok := strings.Cut(a["config"], ":"); ok {
		t.ConfigEntries = []kafka.ConfigEntry{{ConfigName: k, ConfigValue: v}}
	}
	r, err := d.cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{t}})
	if err != nil {
		return nil, err
	}
	return nil, first(r.Errors)
}

func (d *driver) delete(a proto.Args) (proto.Args, error) {
	r, err := d.cl.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{a["topic"]}})
	if err != nil {
		return nil, err
	}
	return nil, first(r.Errors)
}

func (d *driver) topics(proto.Args) (proto.Args, error) {
	m, err := d.cl.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	var s []string
	for _, t := range m.Topics {
		s = append(s, t.Name)
	}
	return proto.Args{"topics": strings.Join(s, ",")}, nil
}

func (d *driver) describe(a proto.Args) (proto.Args, error) {
	m, err := d.cl.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{a["topic"]}})
	if err != nil {
		return nil, err
	}
	return proto.Args{"parts": proto.Itoa(len(m.Topics[0].Partitions))}, m.Topics[0].Error
}

func (d *driver) addParts(a proto.Args) (proto.Args, error) {
	r, err := d.cl.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: a["topic"], Count: int32(a.Int("total"))}},
	})
	if err != nil {
		return nil, err
	}
	return nil, first(r.Errors)
}

func (d *driver) getConfig(a proto.Args) (proto.Args, error) {
	r, err := d.cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: a["topic"], ConfigNames: []string{a["key"]}},
	}})
	if err != nil {
		return nil, err
	}
	for _, e := range r.Resources[0].ConfigEntries {
		if e.ConfigName == a["key"] {
			return proto.Args{"value": e.ConfigValue}, nil
		}
	}
	return nil, r.Resources[0].Error
}

func (d *driver) setConfig(a proto.Args) (proto.Args, error) {
	r, err := d.cl.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: a["topic"],
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: a["key"], Value: a["value"], ConfigOperation: kafka.ConfigOperationSet}},
	}}})
	if err != nil {
		return nil, err
	}
	return nil, r.Resources[0].Error
}

func (d *driver) groups(proto.Args) (proto.Args, error) {
	r, err := d.cl.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var s []string
	for _, g := range r.Groups {
		s = append(s, g.GroupID)
	}
	return proto.Args{"groups": strings.Join(s, ",")}, r.Error
}

func (d *driver) describeGroup(a proto.Args) (proto.Args, error) {
	r, err := d.cl.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{a["group"]}})
	if err != nil {
		return nil, err
	}
	g := r.Groups[0]
	return proto.Args{"state": g.GroupState, "members": proto.Itoa(len(g.Members))}, g.Error
}

func (d *driver) offsets(a proto.Args) (proto.Args, error) {
	r, err := d.cl.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: a["group"], Topics: map[string][]int{a["topic"]: {0, 1, 2, 3, 4, 5}},
	})
	if err != nil {
		return nil, err
	}
	var s []string
	for _, p := range r.Topics[a["topic"]] {
		s = append(s, proto.Itoa(p.Partition)+":"+proto.Itoa(p.CommittedOffset))
	}
	return proto.Args{"offsets": strings.Join(s, ",")}, r.Error
}

func (d *driver) setOffset(a proto.Args) (proto.Args, error) {
	r, err := d.cl.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: a["group"], GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{a["topic"]: {{Partition: int(a.Int("part")), Offset: a.Int("offset")}}},
	})
	if err != nil {
		return nil, err
	}
	return nil, r.Topics[a["topic"]][0].Error
}

func (d *driver) deleteGroup(a proto.Args) (proto.Args, error) {
	r, err := d.cl.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{a["group"]}})
	if err != nil {
		return nil, err
	}
	return nil, first(r.Errors)
}

func (d *driver) bounds(a proto.Args) (proto.Args, error) {
	r, err := d.cl.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		a["topic"]: {kafka.FirstOffsetOf(int(a.Int("part"))), kafka.LastOffsetOf(int(a.Int("part")))},
	}})
	if err != nil {
		return nil, err
	}
	p := r.Topics[a["topic"]][0]
	return proto.Args{"low": proto.Itoa(p.FirstOffset), "high": proto.Itoa(p.LastOffset)}, p.Error
}
