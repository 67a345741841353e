package manage

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"polylog/core"
	"polylog/protocols/amqp"
)

// Connections, channels and consumers are those of this node.

// inVHost are the connections to the virtual host of the path, or all where it names none; those of
// others only for who may see them.
func (c *call) inVHost() ([]amqp.ConnectionInfo, error) {
	all := slices.DeleteFunc(c.opts.AMQP.Connections(), func(i amqp.ConnectionInfo) bool { return c.mayLookAt(i.User) != nil })
	if c.params.Get("vhost") == "" {
		return all, nil
	}
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	var some []amqp.ConnectionInfo
	for _, i := range all {
		if i.VHost == vhostOf(ns) {
			some = append(some, i)
		}
	}
	return some, nil
}

func host(a netip.AddrPort) string {
	if !a.IsValid() {
		return "unknown"
	}
	return a.Addr().String()
}

func (c *call) jsonOfConnection(i *amqp.ConnectionInfo) object {
	state := "running"
	if i.Blocked {
		state = "blocked"
	}
	o := object{
		"name": i.Name, "node": c.node(), "vhost": i.VHost, "user": i.User, "user_who_performed_action": i.User,
		"type": "network", "protocol": "AMQP 0-9-1", "auth_mechanism": i.Mechanism, "state": state,
		"host": host(i.Server), "port": i.Server.Port(), "peer_host": host(i.Client), "peer_port": i.Client.Port(),
		"connected_at": i.Connected.UnixMilli(), "channel_max": i.ChannelMax, "frame_max": i.FrameMax, "timeout": int64(i.Heartbeat.Seconds()),
		"channels": len(i.Channels), "client_properties": jsonOfTable(i.Properties), "recv_oct": i.Received,
	}
	maps.Copy(o, jsonOfTLS(i.TLS))
	if v, ok := i.Properties.Get("connection_name"); ok && v.IsText() {
		o["user_provided_name"] = v.Str()
	}
	return o
}

// jsonOfTLS is what is said of a connection's encryption; t is nil where there is none.
func jsonOfTLS(t *tls.ConnectionState) object {
	o := object{
		"ssl": t != nil, "ssl_protocol": nil, "ssl_key_exchange": nil, "ssl_cipher": nil, "ssl_hash": nil,
		"peer_cert_subject": nil, "peer_cert_issuer": nil, "peer_cert_validity": nil,
	}
	if t == nil {
		return o
	}
	o["ssl_protocol"] = strings.ToLower(strings.ReplaceAll(tls.VersionName(t.Version), " ", "v")) // tlsv1.3
	o["ssl_cipher"] = tls.CipherSuiteName(t.CipherSuite)
	if len(t.PeerCertificates) > 0 {
		cert := t.PeerCertificates[0]
		o["peer_cert_subject"], o["peer_cert_issuer"] = cert.Subject.String(), cert.Issuer.String()
		o["peer_cert_validity"] = cert.NotBefore.UTC().Format(time.RFC3339) + " - " + cert.NotAfter.UTC().Format(time.RFC3339)
	}
	return o
}

func channelName(i *amqp.ConnectionInfo, ch *amqp.ChannelInfo) string {
	return fmt.Sprintf("%s (%d)", i.Name, ch.Number)
}

func (c *call) jsonOfChannel(i *amqp.ConnectionInfo, ch *amqp.ChannelInfo) object {
	return object{
		"name": channelName(i, ch), "number": ch.Number, "node": c.node(), "vhost": i.VHost, "user": i.User, "user_who_performed_action": i.User,
		"state": "running", "confirm": ch.Confirms, "transactional": ch.Transactional, "prefetch_count": ch.Prefetch, "global_prefetch_count": 0,
		"consumer_count": len(ch.Consumers), "messages_unacknowledged": ch.Unacked, "messages_unconfirmed": ch.Unconfirmed,
		"messages_uncommitted": 0, "acks_uncommitted": 0,
		"connection_details": object{"name": i.Name, "peer_host": host(i.Client), "peer_port": i.Client.Port()},
	}
}

func (c *call) jsonOfConsumer(i *amqp.ConnectionInfo, ch *amqp.ChannelInfo, k *amqp.ConsumerInfo) object {
	return object{
		"consumer_tag": k.Tag, "queue": object{"name": k.Queue, "vhost": i.VHost}, "ack_required": !k.NoAck, "exclusive": k.Exclusive,
		"prefetch_count": k.Prefetch, "arguments": jsonOfTable(k.Arguments), "active": true, "activity_status": "up",
		"channel_details": object{
			"name": channelName(i, ch), "number": ch.Number, "node": c.node(), "connection_name": i.Name,
			"peer_host": host(i.Client), "peer_port": i.Client.Port(), "user": i.User,
		},
	}
}

func listConnections(c *call) (any, error) {
	is, err := c.inVHost()
	if err != nil {
		return nil, err
	}
	var all []entry
	for n := range is {
		if user := c.params.Get("user"); user == "" || user == is[n].User {
			all = append(all, entry{is[n].Name, func(bool) (object, error) { return c.jsonOfConnection(&is[n]), nil }})
		}
	}
	return c.list(all)
}

// connection is that of the path.
func (c *call) connection() (*amqp.ConnectionInfo, error) {
	i, ok := c.opts.AMQP.Connection(c.params.Get("connection"))
	if !ok {
		return nil, errNotFound
	}
	return &i, c.mayLookAt(i.User)
}

func getConnection(c *call) (any, error) {
	i, err := c.connection()
	if err != nil {
		return nil, err
	}
	return c.jsonOfConnection(i), nil
}

func closeConnection(c *call) (any, error) {
	reason := string(c.Request.Header.Peek("X-Reason"))
	if reason == "" {
		reason = "Closed via management plugin"
	}
	i, err := c.connection()
	switch {
	case err != nil:
		return nil, err
	case i.User != c.user && !c.administrates():
		return nil, notAuthorised("User not authorised to access object")
	}
	if !c.opts.AMQP.CloseConnection(c.params.Get("connection"), reason) {
		return nil, errNotFound
	}
	return nil, nil
}

// channels are entries for those of connections.
func (c *call) channels(is []amqp.ConnectionInfo) (all []entry) {
	for n := range is {
		for m := range is[n].Channels {
			i, ch := &is[n], &is[n].Channels[m]
			all = append(all, entry{channelName(i, ch), func(bool) (object, error) { return c.jsonOfChannel(i, ch), nil }})
		}
	}
	return all
}

func listChannels(c *call) (any, error) {
	is, err := c.inVHost()
	if err != nil {
		return nil, err
	}
	return c.list(c.channels(is))
}

func listChannelsOfConnection(c *call) (any, error) {
	i, err := c.connection()
	if err != nil {
		return nil, err
	}
	return c.list(c.channels([]amqp.ConnectionInfo{*i}))
}

func getChannel(c *call) (any, error) {
	name := c.params.Get("channel")
	at := strings.LastIndex(name, " (") // that of its connection is in front
	if at < 0 {
		return nil, errNotFound
	}
	i, ok := c.opts.AMQP.Connection(name[:at])
	if !ok {
		return nil, errNotFound
	}
	if err := c.mayLookAt(i.User); err != nil {
		return nil, err
	}
	for m := range i.Channels {
		ch := &i.Channels[m]
		if channelName(&i, ch) != name {
			continue
		}
		o := c.jsonOfChannel(&i, ch)
		details := []object{}
		for k := range ch.Consumers {
			details = append(details, c.jsonOfConsumer(&i, ch, &ch.Consumers[k]))
		}
		o["consumer_details"] = details
		return o, nil
	}
	return nil, errNotFound
}

// consumers calls fn for each consumer of connections.
func consumers(is []amqp.ConnectionInfo, fn func(i *amqp.ConnectionInfo, ch *amqp.ChannelInfo, k *amqp.ConsumerInfo)) {
	for n := range is {
		for m := range is[n].Channels {
			ch := &is[n].Channels[m]
			for j := range ch.Consumers {
				fn(&is[n], ch, &ch.Consumers[j])
			}
		}
	}
}

func listConsumers(c *call) (any, error) {
	is, err := c.inVHost()
	if err != nil {
		return nil, err
	}
	var all []entry
	consumers(is, func(i *amqp.ConnectionInfo, ch *amqp.ChannelInfo, k *amqp.ConsumerInfo) {
		all = append(all, entry{k.Tag, func(bool) (object, error) { return c.jsonOfConsumer(i, ch, k), nil }})
	})
	return c.list(all)
}

// consumersOf are those of a queue.
func (c *call) consumersOf(queue core.Name) []object {
	all := []object{}
	consumers(c.opts.AMQP.Connections(), func(i *amqp.ConnectionInfo, ch *amqp.ChannelInfo, k *amqp.ConsumerInfo) {
		if k.Queue == queue.Name && i.VHost == vhostOf(queue.Namespace) {
			all = append(all, c.jsonOfConsumer(i, ch, k))
		}
	})
	return all
}

// counts are how many connections, channels and consumers there are.
func (c *call) counts() (connections, channels, consumed int) {
	is := c.opts.AMQP.Connections()
	for n := range is {
		channels += len(is[n].Channels)
	}
	consumers(is, func(*amqp.ConnectionInfo, *amqp.ChannelInfo, *amqp.ConsumerInfo) { consumed++ })
	return len(is), channels, consumed
}

func port(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, badRequest("%.40s is no port", text)
	}
	return uint16(n), nil
}
