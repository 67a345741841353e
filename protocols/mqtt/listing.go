package mqtt

import (
	"crypto/tls"
	"strconv"

	"polylog/router"
)

// versions are MQTT's by what CONNECT says.
var versions = map[byte]string{3: "3.1", 4: "3.1.1", 5: "5"}

// describe is the connection in a list. What it is made of does not change once CONNECT is
// answered, but for the subscriptions.
func (c *conn) describe(k *router.Client) {
	k.Protocol, k.Version, k.Since, k.Namespace = "mqtt", versions[c.version], c.since, c.srv.opts.Namespace
	k.Remote, k.Local, k.ClientID, k.User = c.remote, c.nc.LocalAddr().String(), c.client, c.principal.Name
	_, k.TLS = c.nc.(*tls.Conn)
	_, webSocket := c.nc.(*wsConn)
	c.session.mu.Lock()
	subs, inflight, queued := len(c.session.subs), len(c.session.inflight), len(c.session.queue)
	c.session.mu.Unlock()
	add := func(name, value string) { k.Details = append(k.Details, router.Detail{Name: name, Value: value}) }
	if webSocket {
		add("transport", "WebSocket")
	}
	add("keep-alive", (c.keepAlive * 2 / 3).String())
	add("subscriptions", strconv.Itoa(subs))
	add("in flight", strconv.Itoa(inflight))
	add("queued", strconv.Itoa(queued))
}
