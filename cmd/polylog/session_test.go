package main

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"
)

// device connects a client of MQTT 3.1.1 without clean session, which subscribes to t/# with QoS 1.
func (s *served) device(t *testing.T, id string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.mqtt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	connect := []byte{0x10, byte(12 + len(id)), 0, 4, 'M', 'Q', 'T', 'T', 4, 0, 0, 0, 0, byte(len(id))}
	subscribe := "\x82\x08\x00\x01\x00\x03t/#\x01"
	if _, err := nc.Write(slices.Concat(connect, []byte(id), []byte(subscribe))); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 9)
	if _, err := io.ReadFull(nc, answer); err != nil || string(answer) != "\x20\x02\x00\x00\x90\x03\x00\x01\x01" {
		t.Fatalf("CONNACK and SUBACK: %x, %v", answer, err)
	}
	return nc
}

func TestSessionVerbs(t *testing.T) {
	s := start(t, t.TempDir())
	do := s.verbsOf(t)
	nc := s.device(t, "pump/7")
	has(t, do("", "session", "list"), "CLIENT  NODE", "pump/7  1     -     1              never   -\n")
	has(t, do("", "session", "list", "--search", "PUMP", "--connected", "-o", "json"), `"clientId": "pump/7"`)
	if got := do("", "session", "list", "--away", "-o", "json"); got != "[]\n" {
		t.Errorf("those that are away: %s", got)
	}
	has(t, do("", "session", "describe", "pump/7"), "client    pump/7\n", "expiry    never\n", "t/#     1    0      0\n")
	do("", "session", "delete", "pump/7")
	if n, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v; want the connection's end", n, err)
	}
	wrong(t, exitFailed, "describe session pump/7: ", "session", "describe", "pump/7", "-s", s.http)
	wrong(t, exitUsage, "leave nothing", "session", "list", "--connected", "--away", "-s", s.http)
	wrong(t, exitFailed, "delete session pump/7: ", "session", "delete", "pump/7", "-s", s.http)
}
