package main

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"polylog/compat/kafka/clients/proto"
)

var ctx = context.Background()

func (d *driver) create(a proto.Args) (proto.Args, error) {
	configs := map[string]*string{}
	if k, v, ok := strings.Cut(a["config"], ":"); ok {
		configs[k] = &v
	}
	_, err := d.adm.CreateTopic(ctx, int32(a.Int("parts")), 1, configs, a["topic"])
	return nil, err
}

func (d *driver) delete(a proto.Args) (proto.Args, error) {
	_, err := d.adm.DeleteTopic(ctx, a["topic"])
	return nil, err
}

func (d *driver) topics(proto.Args) (proto.Args, error) {
	t, err := d.adm.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	return proto.Args{"topics": strings.Join(t.Names(), ",")}, t.Error()
}

func (d *driver) describe(a proto.Args) (proto.Args, error) {
	t, err := d.adm.ListTopics(ctx, a["topic"])
	if err != nil {
		return nil, err
	}
	return proto.Args{"parts": proto.Itoa(len(t[a["topic"]].Partitions))}, t.Error()
}

func (d *driver) addParts(a proto.Args) (proto.Args, error) {
	r, err := d.adm.UpdatePartitions(ctx, int(a.Int("total")), a["topic"])
	if err != nil {
		return nil, err
	}
	return nil, r.Error()
}

func (d *driver) getConfig(a proto.Args) (proto.Args, error) {
	rs, err := d.adm.DescribeTopicConfigs(ctx, a["topic"])
	if err != nil {
		return nil, err
	}
	r, err := rs.On(a["topic"], nil)
	if err != nil {
		return nil, err
	}
	for _, c := range r.Configs {
		if c.Key == a["key"] {
			return proto.Args{"value": c.MaybeValue()}, r.Err
		}
	}
	return nil, r.Err
}

func (d *driver) setConfig(a proto.Args) (proto.Args, error) {
	v := a["value"]
	rs, err := d.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: a["key"], Value: &v}}, a["topic"])
	if err != nil {
		return nil, err
	}
	r, err := rs.On(a["topic"], nil)
	if err != nil {
		return nil, err
	}
	return nil, r.Err
}

func (d *driver) groups(proto.Args) (proto.Args, error) {
	g, err := d.adm.ListGroups(ctx)
	return proto.Args{"groups": strings.Join(g.Groups(), ",")}, err
}

func (d *driver) describeGroup(a proto.Args) (proto.Args, error) {
	gs, err := d.adm.DescribeGroups(ctx, a["group"])
	if err != nil {
		return nil, err
	}
	g := gs[a["group"]]
	return proto.Args{"state": g.State, "members": proto.Itoa(len(g.Members))}, g.Err
}

func (d *driver) offsets(a proto.Args) (proto.Args, error) {
	o, err := d.adm.FetchOffsets(ctx, a["group"])
	if err != nil {
		return nil, err
	}
	var s []string
	for p, v := range o[a["topic"]] {
		s = append(s, proto.Itoa(p)+":"+proto.Itoa(v.At))
	}
	return proto.Args{"offsets": strings.Join(s, ",")}, o.Error()
}

func (d *driver) setOffset(a proto.Args) (proto.Args, error) {
	var o kadm.Offsets
	o.AddOffset(a["topic"], int32(a.Int("part")), a.Int("offset"), -1)
	return nil, d.adm.CommitAllOffsets(ctx, a["group"], o)
}

func (d *driver) deleteGroup(a proto.Args) (proto.Args, error) {
	_, err := d.adm.DeleteGroup(ctx, a["group"])
	return nil, err
}

func (d *driver) deleteRecords(a proto.Args) (proto.Args, error) {
	var o kadm.Offsets
	o.AddOffset(a["topic"], int32(a.Int("part")), a.Int("before"), -1)
	r, err := d.adm.DeleteRecords(ctx, o)
	if err != nil {
		return nil, err
	}
	low, _ := r.Lookup(a["topic"], int32(a.Int("part")))
	return proto.Args{"low": proto.Itoa(low.LowWatermark)}, r.Error()
}

func (d *driver) bounds(a proto.Args) (proto.Args, error) {
	low, err := d.adm.ListStartOffsets(ctx, a["topic"])
	if err != nil {
		return nil, err
	}
	high, err := d.adm.ListEndOffsets(ctx, a["topic"])
	if err != nil {
		return nil, err
	}
	l, _ := low.Lookup(a["topic"], int32(a.Int("part")))
	h, _ := high.Lookup(a["topic"], int32(a.Int("part")))
	return proto.Args{"low": proto.Itoa(l.Offset), "high": proto.Itoa(h.Offset)}, nil
}
