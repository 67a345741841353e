package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// MQTTClients are up to limit clients of MQTT of a namespace, on all nodes, by client id, after from,
// without what belongs to their sessions. Not all are everybody's affair: see AuthorizeMQTTClient.
func (r *Router) MQTTClients(namespace, from string, limit int) ([]*MQTTClient, error) {
	return r.state.MQTTClients(namespace, from, limit)
}

// MQTTAway is how many sessions of all namespaces go on without a connection.
func (r *Router) MQTTAway() int64 { return r.state.MQTTAway() }

// AuthorizeMQTTClient checks that p may look at a client: it monitors the cluster, or the client is its own.
func (r *Router) AuthorizeMQTTClient(p Principal, c *MQTTClient) error {
	if c.User != "" && c.User == p.Name && p.IsUser() && r.current(&p) {
		return nil
	}
	return r.auth.Authorize(p, OpDescribe, Resource{Kind: ResourceCluster})
}

// MQTTClient finds a client with all that belongs to its session. Error kinds: NotFound, Denied.
func (r *Router) MQTTClient(ctx context.Context, p Principal, name core.Name) (*MQTTClient, error) {
	if err := r.Sync(ctx); err != nil {
		return nil, err
	}
	c, err := r.state.MQTTClient(name)
	if err != nil {
		return nil, err
	}
	if c == nil {
		c = &MQTTClient{Name: name}
		err = core.E(core.NotFound, "mqtt client %.80q is not connected and has no session", name.Name)
	}
	if denied := r.AuthorizeMQTTClient(p, c); denied != nil {
		return nil, denied
	}
	return c, err
}

// EndMQTTClient ends a client's session, and its connection, which is told so on whatever node it is; a
// will is published. An administrator may, and whose client it is. Error kinds: Denied, NotFound (it is
// not connected and has no session).
func (r *Router) EndMQTTClient(ctx context.Context, p Principal, name core.Name) error {
	cmd := state.EndMQTT{Client: name}
	if err := r.auth.Authorize(p, OpAlter, Resource{Kind: ResourceCluster}); err != nil {
		if !p.IsUser() || !r.current(&p) {
			return err
		}
		cmd.User = p.Name // who has it by then
	}
	_, err := r.propose(ctx, cmd.Command())
	return err
}
