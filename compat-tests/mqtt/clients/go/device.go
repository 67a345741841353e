package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// wait is how long anything may take that a broker has to answer.
const wait = 20 * time.Second

// A device is a connection of one client library.
type device interface {
	Subscribe(filter string, qos byte) error
	// Publish returns when the broker has acknowledged the message, as its QoS says.
	Publish(m message) error
	// Messages are those that came, in their order.
	Messages() <-chan message
	// Disconnect says goodbye, Cut does not.
	Disconnect() error
	Cut() error
}

// An opener connects a device, and says whether the broker had a session of it.
type opener func(o options) (d device, resumed bool, err error)

type options struct {
	id   string
	keep bool // the session outlives the connection, and is gone on with
	will *message
}

type message struct {
	topic, payload string
	qos            byte
	retained       bool
	again          bool       // DUP
	properties     properties // of MQTT 5
}

type properties struct {
	contentType, responseTopic string
	correlation                []byte
	expiry                     uint32
	user                       [][2]string
}

// receive takes the next message.
func receive(d device) (message, error) {
	select {
	case m := <-d.Messages():
		return m, nil
	case <-time.After(wait):
		return message{}, errors.New("nothing came")
	}
}

// expect takes the next message and compares everything but the properties.
func expect(d device, want message) (properties, error) {
	got, err := receive(d)
	if err != nil {
		return got.properties, fmt.Errorf("instead of %.40q to %s: %w", want.payload, want.topic, err)
	}
	if got.topic != want.topic || got.payload != want.payload || got.qos != want.qos || got.retained != want.retained {
		return got.properties, fmt.Errorf("got %.40q to %s, QoS %d, retained %t; want %.40q to %s, QoS %d, retained %t",
			got.payload, got.topic, got.qos, got.retained, want.payload, want.topic, want.qos, want.retained)
	}
	return got.properties, nil
}

// compare says what is wrong with the properties that came. Of the expiry a part may be over.
func compare(got, want properties) error {
	switch {
	case got.contentType != want.contentType, got.responseTopic != want.responseTopic, !bytes.Equal(got.correlation, want.correlation):
	case got.expiry == 0, got.expiry > want.expiry:
	case fmt.Sprint(got.user) != fmt.Sprint(want.user):
	default:
		return nil
	}
	return fmt.Errorf("properties: got %+v, want %+v", got, want)
}
