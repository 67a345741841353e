package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// Packets of MQTT 3.1.1, as far as a load needs them. They are made once and sent as bytes.

const (
	connack = 2
	puback  = 4
	pubrec  = 5
	pubrel  = 6
	pubcomp = 7
	suback  = 9
)

// ioTimeout bounds what has to come at once.
const ioTimeout = 30 * time.Second

// packet is a packet with a body of less than 16 KiB.
func packet(first byte, body []byte) []byte {
	if len(body) < 128 {
		return append([]byte{first, byte(len(body))}, body...)
	}
	return append([]byte{first, byte(len(body)&0x7f | 0x80), byte(len(body) >> 7)}, body...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func connectPacket(client string, clean bool) []byte {
	flags := byte(0)
	if clean {
		flags = 2
	}
	body := append(appendString(nil, "MQTT"), 4, flags, 0, 0) // no keep-alive
	return packet(0x10, appendString(body, client))
}

func subscribePacket(filter string, qos byte) []byte {
	return packet(0x82, append(appendString([]byte{0, 1}, filter), qos))
}

// publishPacket is a PUBLISH; with QoS 1 and 2 its packet id is the two bytes before the payload.
func publishPacket(topic string, qos byte, id uint16, payload []byte) []byte {
	body := appendString(nil, topic)
	if qos > 0 {
		body = binary.BigEndian.AppendUint16(body, id)
	}
	return packet(0x30|qos<<1, append(body, payload...))
}

// dial connects a client and waits until it is accepted.
func dial(addr, client string, clean bool) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", addr, ioTimeout)
	if err != nil {
		return nil, err
	}
	if err := ask(c, connectPacket(client, clean), connack, 4); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect %s: %w", client, err)
	}
	return c, nil
}

// ask sends a packet and reads its answer, of a known length, whose last byte is a code that is
// to be below 0x80.
func ask(c net.Conn, pk []byte, kind byte, length int) error {
	if err := c.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	if _, err := c.Write(pk); err != nil {
		return err
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if answer[0]>>4 != kind || answer[length-1] >= 0x80 || kind == connack && answer[length-1] != 0 {
		return fmt.Errorf("answer %x", answer)
	}
	return c.SetDeadline(time.Time{})
}

func subscribe(c net.Conn, filter string, qos byte) error {
	return ask(c, subscribePacket(filter, qos), suback, 5)
}
