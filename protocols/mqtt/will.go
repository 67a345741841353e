package mqtt

import (
	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
)

// willOf is the PUBLISH that a CONNECT's will is (section 3.1.2.5).
func willOf(pk *packets.Packet) *packets.Packet {
	p := &pk.Connect
	return &packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: p.WillQos, Retain: p.WillRetain},
		Properties:  p.WillProperties, TopicName: p.WillTopic, Payload: p.WillPayload,
	}
}

// authorizeWill refuses a CONNECT whose will its client may not publish: nobody could tell
// it later.
func (c *conn) authorizeWill(pk *packets.Packet) packets.Code {
	if !pk.Connect.WillFlag {
		return packets.CodeSuccess
	}
	w := willOf(pk)
	if code := c.checkPublish(w); code != packets.CodeSuccess {
		return code
	}
	topic, _, _ := c.srv.mapping.place(w.TopicName)
	n := core.Name{Namespace: c.srv.opts.Namespace, Name: topic}
	if err := c.srv.router.Authorize(c.principal, router.OpWrite, router.Resource{Kind: router.ResourceTopic, Name: n}); err != nil {
		return reasonOf(err)
	}
	return packets.CodeSuccess
}

// publishWill publishes the will, if there is one and the client did not take it back. The
// session ends with its connection, and so no will is delayed (section 3.1.3.2.2).
func (c *conn) publishWill() {
	w := c.will
	if w == nil {
		return
	}
	c.will = nil
	q, topic, key, keyed, err := c.srv.locate(c.principal, w.TopicName)
	if err == nil {
		var b core.BatchBuilder
		appendRecord(&b, c.srv.now(), topic, w.TopicName, key, keyed, c.clientBytes, w)
		var batch []byte
		if batch, err = b.Build(nil, core.BatchOptions{Producer: core.Nobody}); err == nil {
			done := make(chan error, 1)
			stored := func(res router.PublishResult) { done <- res.Err }
			if w.FixedHeader.Retain {
				c.srv.router.PublishRetained(c.principal, q, core.Name{Namespace: c.srv.opts.Namespace, Name: w.TopicName}, batch, stored)
			} else {
				c.srv.router.PublishChecked(c.principal, q, batch, stored)
			}
			err = <-done
		}
	}
	if err != nil {
		c.srv.metrics.rejected.Add(1)
		c.srv.log.Warn("mqtt will was not published", "client", c.client, "topic", w.TopicName, "err", err)
	}
}
