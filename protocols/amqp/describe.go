package amqp

import (
	"crypto/tls"
	"strconv"
	"strings"
	"time"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// softwareOf is what the properties of a client say that it is.
func softwareOf(t message.Table) string {
	var words []string
	for _, key := range []string{"product", "version", "platform"} {
		if v, ok := t.Get(key); ok && v.IsText() {
			words = append(words, spec.Cut(v.Str()))
		}
	}
	return strings.Join(words, " ")
}

// describe is the connection in a list. It is open: what it was opened with does not change.
func (c *conn) describe(k *router.Client) {
	k.Protocol, k.Version, k.Since, k.Namespace = "amqp", "0-9-1", c.connected, c.namespace
	k.Remote, k.Local, k.User = c.nc.RemoteAddr().String(), c.nc.LocalAddr().String(), c.principal.Name
	k.ClientID, k.Software, k.Received = c.clientName, softwareOf(c.properties), c.heart.bytes.Load()
	_, k.TLS = c.nc.(*tls.Conn)
	c.out.mu.Lock()
	channels := len(c.channels)
	c.out.mu.Unlock()
	add := func(name, value string) { k.Details = append(k.Details, router.Detail{Name: name, Value: value}) }
	add("channels", strconv.Itoa(channels))
	add("heartbeat", time.Duration(c.heart.period.Load()).String())
	if c.blocked.Load() {
		add("blocked", "yes")
	}
}
