package kafka

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// describeConfigs lists every key of topics and brokers with its value and where that
// comes from.
func describeConfigs(ctx context.Context, c *call, req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	type key struct {
		kind kmsg.ConfigResourceType
		name string
	}
	c.catchUp(ctx)
	seen := once[key]{}
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for i := range req.Resources {
		rr := &req.Resources[i]
		if !seen.first(key{rr.ResourceType, rr.ResourceName}) {
			continue
		}
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = rr.ResourceType, rr.ResourceName
		entries, err := c.configEntries(rr.ResourceType, rr.ResourceName)
		if err != nil {
			r.ErrorCode, r.ErrorMessage = adminCode(err), message(err)
		}
		if rr.ConfigNames != nil {
			entries = slices.DeleteFunc(entries, func(e router.ConfigEntry) bool { return !slices.Contains(rr.ConfigNames, e.Key.Name) })
		}
		n := configBytes(entries, req)
		// Only what is left out says so, where a closed connection would say nothing.
		if !c.fits(n + refusedBytes*(len(req.Resources)-i)) {
			err := badRequest(codeInvalidRequest, "the answer would take more than %d bytes, ask for fewer resources at a time", c.srv.opts.MaxAnswerBytes)
			r.ErrorCode, r.ErrorMessage = adminCode(err), message(err)
			n, entries = 0, nil
		}
		if !c.grow(ctx, n+2*elementBytes+min(len(rr.ResourceName), 2*elementBytes)) {
			return resp
		}
		for j := range entries {
			r.Configs = append(r.Configs, describedConfig(&entries[j], req))
		}
		resp.Resources = append(resp.Resources, r)
	}
	return resp
}

// refusedBytes is what a resource takes at most, besides its configurations; its name is
// the request's.
const refusedBytes = 4 * elementBytes

// configEntries are the keys of a resource.
func (c *call) configEntries(kind kmsg.ConfigResourceType, name string) ([]router.ConfigEntry, error) {
	r := c.srv.router
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := router.CheckTopicName(name); err != nil {
			return nil, badRequest(codeInvalidTopic, "%s", err.Error())
		}
		if err := c.may(router.OpDescribeConfigs, c.topicName(name)); err != nil {
			return nil, err
		}
		t, ok := r.Topic(c.topicName(name))
		if !ok {
			return nil, badRequest(codeUnknownTopicOrPartition, "topic %s does not exist", name)
		}
		return r.DescribeTopicConfig(t), nil
	case kmsg.ConfigResourceTypeBroker:
		if err := c.mayCluster(router.OpDescribeConfigs); err != nil {
			return nil, &requestError{codeClusterAuthorizationFailed, err}
		}
		if err := c.checkBrokerName(name); err != nil {
			return nil, err
		}
		entries := r.DescribeBrokerConfig()
		if name == "" { // what was set at run time for all brokers, and only that
			entries = slices.DeleteFunc(entries, func(e router.ConfigEntry) bool { return e.Source != router.SourceDynamicBroker })
		}
		return entries, nil
	case kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		return nil, nil
	default:
		return nil, badRequest(codeInvalidRequest, "configuration resource type %d is unknown", kind)
	}
}

// checkBrokerName accepts a broker's id, or "" for all of them.
func (c *call) checkBrokerName(name string) error {
	if name == "" {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil || strconv.FormatInt(id, 10) != name { // +1 and 01 would be more names of 1
		return badRequest(codeInvalidRequest, "broker id %q is no number", name)
	}
	for _, n := range c.cluster().nodes {
		if n.id == int32(id) {
			return nil
		}
	}
	return badRequest(codeInvalidRequest, "broker %d does not exist", id)
}

// configBytes is what entries take in the answer to req.
func configBytes(entries []router.ConfigEntry, req *kmsg.DescribeConfigsRequest) (n int) {
	for i := range entries {
		e := &entries[i]
		n += elementBytes + len(e.Key.Name) + 2*len(e.Value)
		if req.IncludeDocumentation {
			n += len(e.Key.Doc)
		}
		if req.IncludeSynonyms {
			for _, v := range e.Candidates {
				n += elementBytes/2 + len(v.Name) + 2*len(v.Value)
			}
		}
	}
	return n
}

func describedConfig(e *router.ConfigEntry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	d := kmsg.NewDescribeConfigsResponseResourceConfig()
	d.Name, d.ReadOnly = e.Key.Name, e.Key.ReadOnly
	d.Source = kmsg.ConfigSource(e.Source)
	d.IsDefault = e.Source == router.SourceDefault
	d.ConfigType = kmsg.ConfigType(e.Key.Type)
	d.IsSensitive = e.Key.Type == router.TypePassword
	if !e.Unset && !d.IsSensitive {
		d.Value = new(e.Value)
	}
	if req.IncludeDocumentation {
		d.Documentation = new(e.Key.Doc)
	}
	if req.IncludeSynonyms {
		for _, v := range e.Candidates {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Source = v.Name, kmsg.ConfigSource(v.Source)
			if !d.IsSensitive && !e.Unset {
				s.Value = new(v.Value)
			}
			d.ConfigSynonyms = append(d.ConfigSynonyms, s)
		}
	}
	return d
}
