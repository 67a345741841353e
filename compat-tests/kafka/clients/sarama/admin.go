package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/IBM/sarama"

	"polylog/compat/kafka/clients/proto"
)

// admin runs f with a cluster admin of its own.
func (d *driver) admin(f func(sarama.ClusterAdmin) (proto.Args, error)) (proto.Args, error) {
	adm, err := sarama.NewClusterAdmin(d.seeds(), config())
	if err != nil {
		return nil, err
	}
	out, err := f(adm)
	return out, errors.Join(err, adm.Close())
}

func (d *driver) create(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		t := &sarama.TopicDetail{NumPartitions: int32(a.Int("parts")), ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
		if k, v, ok := strings.Cut(a["config"], ":"); ok {
			t.ConfigEntries[k] = &v
		}
		return nil, adm.CreateTopic(a["topic"], t, false)
	})
}

func (d *driver) delete(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) { return nil, adm.DeleteTopic(a["topic"]) })
}

func (d *driver) topics(proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		t, err := adm.ListTopics()
		return proto.Args{"topics": strings.Join(slices.Collect(maps.Keys(t)), ",")}, err
	})
}

func (d *driver) describe(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		t, err := adm.DescribeTopics([]string{a["topic"]})
		if err != nil {
			return nil, err
		}
		return proto.Args{"parts": proto.Itoa(len(t[0].Partitions))}, nil
	})
}

func (d *driver) addParts(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		return nil, adm.CreatePartitions(a["topic"], int32(a.Int("total")), nil, false)
	})
}

func (d *driver) getConfig(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		c, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: a["topic"], ConfigNames: []string{a["key"]}})
		if err != nil || len(c) != 1 {
			return nil, err
		}
		return proto.Args{"value": c[0].Value}, nil
	})
}

func (d *driver) setConfig(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		v := a["value"]
		return nil, adm.IncrementalAlterConfig(sarama.TopicResource, a["topic"], map[string]sarama.IncrementalAlterConfigsEntry{
			a["key"]: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &v},
		}, false)
	})
}

func (d *driver) groups(proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		g, err := adm.ListConsumerGroups()
		return proto.Args{"groups": strings.Join(slices.Collect(maps.Keys(g)), ",")}, err
	})
}

func (d *driver) describeGroup(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		g, err := adm.DescribeConsumerGroups([]string{a["group"]})
		if err != nil {
			return nil, err
		}
		return proto.Args{"state": g[0].State, "members": proto.Itoa(len(g[0].Members))}, nil
	})
}

func (d *driver) offsets(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		o, err := adm.ListConsumerGroupOffsets(a["group"], nil)
		if err != nil {
			return nil, err
		}
		var s []string
		for p, b := range o.Blocks[a["topic"]] {
			s = append(s, proto.Itoa(p)+":"+proto.Itoa(b.Offset))
		}
		return proto.Args{"offsets": strings.Join(s, ",")}, nil
	})
}

// setOffset goes through an offset manager, which is how sarama resets a group.
func (d *driver) setOffset(a proto.Args) (proto.Args, error) {
	c := config()
	c.Consumer.Offsets.AutoCommit.Enable = false
	cl, err := sarama.NewClient(d.seeds(), c)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	om, err := sarama.NewOffsetManagerFromClient(a["group"], cl)
	if err != nil {
		return nil, err
	}
	pom, err := om.ManagePartition(a["topic"], int32(a.Int("part")))
	if err != nil {
		return nil, err
	}
	pom.ResetOffset(a.Int("offset"), "")
	om.Commit()
	pom.AsyncClose() // the manager's Close finishes it
	return nil, om.Close()
}

func (d *driver) deleteGroup(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) { return nil, adm.DeleteConsumerGroup(a["group"]) })
}

func (d *driver) deleteRecords(a proto.Args) (proto.Args, error) {
	return d.admin(func(adm sarama.ClusterAdmin) (proto.Args, error) {
		return nil, adm.DeleteRecords(a["topic"], map[int32]int64{int32(a.Int("part")): a.Int("before")})
	})
}

func (d *driver) bounds(a proto.Args) (proto.Args, error) {
	cl, err := sarama.NewClient(d.seeds(), config())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	low, err := cl.GetOffset(a["topic"], int32(a.Int("part")), sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	high, err := cl.GetOffset(a["topic"], int32(a.Int("part")), sarama.OffsetNewest)
	return proto.Args{"low": proto.Itoa(low), "high": proto.Itoa(high)}, err
}
