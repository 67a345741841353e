package router

import (
	"context"
	"maps"

	"polylog/core"
	"polylog/router/state"
)

// AlterTopicConfig changes a topic's overrides. With replaceAll, keys that are not
// named go back to their defaults; without, they stay. A change that names an
// unknown key or a bad value is refused whole, with a ConfigError.
func (r *Router) AlterTopicConfig(ctx context.Context, p Principal, name core.Name, changes []ConfigChange, validateOnly, replaceAll bool) error {
	if err := r.auth.Authorize(p, OpAlterConfigs, topicResource(name)); err != nil {
		return err
	}
	// Appending to a list reads what is there: one change at a time.
	r.admin.Lock()
	defer r.admin.Unlock()
	t, ok := r.state.Topic(name)
	if !ok {
		return errNoTopic(name)
	}
	b := r.brokerConfig().values
	overrides := map[string]string{}
	if !replaceAll {
		maps.Copy(overrides, t.Overrides)
	}
	cmd := state.AlterTopicConfig{Name: name, ID: t.ID, Replace: replaceAll}
	for _, c := range changes {
		k, ok := topicKey(c.Key)
		if !ok {
			return &ConfigError{core.E(core.Invalid, "unknown topic configuration %s", c.Key)}
		}
		if c.Op == ConfigDelete {
			delete(overrides, c.Key)
			cmd.Changes = append(cmd.Changes, state.ConfigChange{Key: c.Key, Delete: true})
			continue
		}
		v, err := k.change(topicEntry(k, overrides, b).Value, c)
		if err != nil {
			return &ConfigError{err}
		}
		overrides[c.Key] = v
		cmd.Changes = append(cmd.Changes, state.ConfigChange{Key: c.Key, Value: v})
	}
	if err := checkTopicConfigs(overrides, b); err != nil || validateOnly {
		return err
	}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// AlterBrokerConfig changes the broker configuration of the whole cluster.
// Read-only keys, unknown ones and bad values are refused with a ConfigError.
func (r *Router) AlterBrokerConfig(ctx context.Context, p Principal, changes []ConfigChange, validateOnly, replaceAll bool) error {
	if err := r.auth.Authorize(p, OpAlterConfigs, Resource{Kind: ResourceCluster}); err != nil {
		return err
	}
	r.admin.Lock()
	defer r.admin.Unlock()
	b := r.brokerConfig().values
	now := maps.Clone(b)
	cmd := state.AlterBrokerConfig{Replace: replaceAll}
	for _, c := range changes {
		k, ok := brokerKey(c.Key)
		switch {
		case !ok:
			return &ConfigError{core.E(core.Invalid, "unknown broker configuration %s", c.Key)}
		case k.ReadOnly:
			return &ConfigError{core.E(core.Invalid, "broker configuration %s cannot be changed at run time", c.Key)}
		case c.Op == ConfigDelete:
			delete(now, c.Key)
			cmd.Changes = append(cmd.Changes, state.ConfigChange{Key: c.Key, Delete: true})
			continue
		}
		was, _ := now.get(c.Key)
		v, err := k.change(was.Value, c)
		if err == nil {
			err = k.checkValue(v)
		}
		if err != nil {
			return &ConfigError{err}
		}
		now[c.Key] = ConfigValue{c.Key, v, SourceDynamicBroker}
		cmd.Changes = append(cmd.Changes, state.ConfigChange{Key: c.Key, Value: v})
	}
	if validateOnly {
		return nil
	}
	_, err := r.propose(ctx, cmd.Command())
	return err
}
