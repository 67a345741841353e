package mqtt

import (
	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
)

// storedWill is a CONNECT's will (section 3.1.2.5) as the log keeps it from the connection's begin
// on: whoever sees its end, another node too, publishes it. A CONNECT whose will its client may not
// publish is refused: nobody could tell it later. nil: it has none.
func (c *conn) storedWill(pk *packets.Packet) (*router.MQTTWill, packets.Code) {
	p := &pk.Connect
	if !p.WillFlag {
		return nil, packets.CodeSuccess
	}
	w := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: p.WillQos, Retain: p.WillRetain},
		Properties:  p.WillProperties, TopicName: p.WillTopic, Payload: p.WillPayload,
	}
	if code := c.checkPublish(&w); code != packets.CodeSuccess {
		return nil, code
	}
	topic, _, _ := c.srv.mapping.place(w.TopicName)
	if err := c.srv.authorize(c.principal, router.OpWrite, topic); err != nil {
		return nil, reasonOf(err)
	}
	to, err := c.srv.locate(c.principal, w.TopicName)
	if err != nil {
		return nil, reasonOf(err)
	}
	will := &router.MQTTWill{Delay: w.Properties.WillDelayInterval, Expiry: w.Properties.MessageExpiryInterval}
	w.Properties.MessageExpiryInterval = 0 // it counts from the publication (section 3.1.3.2.4)
	will.MQTTMessage, err = c.messageOf(to, &w, c.srv.now())
	return will, reasonOf(err)
}

// messageOf is a PUBLISH as a message of its own; at is its time in ms. Nothing of pk is kept.
func (c *conn) messageOf(to target, pk *packets.Packet, at int64) (router.MQTTMessage, error) {
	var b core.BatchBuilder
	appendRecord(&b, at, to, pk, c.clientBytes)
	c.vouch(&b, pk)
	batch, err := b.Build(nil, core.BatchOptions{Producer: core.Nobody})
	return router.MQTTMessage{Queue: to.queue, Name: string([]byte(pk.TopicName)), Retain: pk.FixedHeader.Retain, Batch: batch}, err
}
