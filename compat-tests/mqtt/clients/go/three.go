package main

import (
	"errors"
	"net"
	"net/url"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// three is a client of MQTT 3.1.1, Eclipse Paho's older one.
type three struct {
	client   mqtt.Client
	conn     net.Conn
	messages chan message
}

func openThree(address string) opener {
	return func(o options) (device, bool, error) {
		d := &three{messages: make(chan message, 1000)}
		c := mqtt.NewClientOptions().AddBroker("tcp://" + address).SetClientID(o.id).SetCleanSession(!o.keep).
			SetProtocolVersion(4).SetAutoReconnect(false).SetConnectTimeout(wait)
		c.SetCustomOpenConnectionFn(func(u *url.URL, _ mqtt.ClientOptions) (_ net.Conn, err error) {
			d.conn, err = net.DialTimeout("tcp", u.Host, wait)
			return d.conn, err
		})
		c.SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
			d.messages <- message{topic: m.Topic(), payload: string(m.Payload()), qos: m.Qos(), retained: m.Retained(), again: m.Duplicate()}
		})
		if o.will != nil {
			c.SetWill(o.will.topic, o.will.payload, o.will.qos, o.will.retained)
		}
		d.client = mqtt.NewClient(c)
		t := d.client.Connect().(*mqtt.ConnectToken)
		err := done(t)
		return d, t.SessionPresent(), err
	}
}

func done(t mqtt.Token) error {
	if !t.WaitTimeout(wait) {
		return errors.New("no answer")
	}
	return t.Error()
}

func (d *three) Subscribe(filter string, qos byte) error {
	return done(d.client.Subscribe(filter, qos, nil))
}

func (d *three) Publish(m message) error {
	return done(d.client.Publish(m.topic, m.qos, m.retained, m.payload))
}

func (d *three) Messages() <-chan message { return d.messages }
func (d *three) Cut() error               { return d.conn.Close() }

func (d *three) Disconnect() error {
	d.client.Disconnect(100)
	return nil
}
