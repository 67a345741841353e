package main

import (
	"context"
	"fmt"
	"net"

	"github.com/eclipse/paho.golang/paho"
)

// five is a client of MQTT 5, Eclipse Paho's newer one.
type five struct {
	client   *paho.Client
	conn     net.Conn
	messages chan message
}

func openFive(address string) opener {
	return func(o options) (device, bool, error) {
		conn, err := net.DialTimeout("tcp", address, wait)
		if err != nil {
			return nil, false, err
		}
		d := &five{conn: conn, messages: make(chan message, 1000)}
		d.client = paho.NewClient(paho.ClientConfig{
			Conn: conn, PacketTimeout: wait,
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
				d.messages <- message{
					topic: r.Packet.Topic, payload: string(r.Packet.Payload), qos: r.Packet.QoS, retained: r.Packet.Retain,
					again: r.Packet.Duplicate(), properties: fromPaho(r.Packet.Properties),
				}
				return true, nil
			}},
		})
		connect := &paho.Connect{ClientID: o.id, CleanStart: !o.keep, KeepAlive: 60}
		if o.keep {
			hour := uint32(3600)
			connect.Properties = &paho.ConnectProperties{SessionExpiryInterval: &hour}
		}
		if o.will != nil {
			connect.WillMessage = &paho.WillMessage{Topic: o.will.topic, Payload: []byte(o.will.payload), QoS: o.will.qos, Retain: o.will.retained}
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		ack, err := d.client.Connect(ctx, connect)
		if err != nil {
			return nil, false, err
		}
		return d, ack.SessionPresent, nil
	}
}

func (d *five) Subscribe(filter string, qos byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	ack, err := d.client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}})
	if err == nil && ack.Reasons[0] != qos {
		err = fmt.Errorf("subscribe to %s: reason %#x", filter, ack.Reasons[0])
	}
	return err
}

func (d *five) Publish(m message) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_, err := d.client.Publish(ctx, &paho.Publish{
		Topic: m.topic, Payload: []byte(m.payload), QoS: m.qos, Retain: m.retained, Properties: toPaho(m.properties),
	})
	return err
}

func (d *five) Messages() <-chan message { return d.messages }
func (d *five) Cut() error               { return d.conn.Close() }
func (d *five) Disconnect() error        { return d.client.Disconnect(&paho.Disconnect{}) }

func toPaho(p properties) *paho.PublishProperties {
	out := &paho.PublishProperties{ContentType: p.contentType, ResponseTopic: p.responseTopic, CorrelationData: p.correlation}
	if p.expiry > 0 {
		out.MessageExpiry = &p.expiry
	}
	for _, u := range p.user {
		out.User = append(out.User, paho.UserProperty{Key: u[0], Value: u[1]})
	}
	return out
}

func fromPaho(p *paho.PublishProperties) properties {
	if p == nil {
		return properties{}
	}
	out := properties{contentType: p.ContentType, responseTopic: p.ResponseTopic, correlation: p.CorrelationData}
	if p.MessageExpiry != nil {
		out.expiry = *p.MessageExpiry
	}
	for _, u := range p.User {
		out.user = append(out.user, [2]string{u.Key, u.Value})
	}
	return out
}
