package main

import (
	"context"
	"log/slog"
	"testing"

	"polylog/cmd/polylog/config"
)

// A node that asks for admission again in its first process, after it was cut off, must not
// be taken for one that has lost its data.
func TestJoinedNodeIsNotNew(t *testing.T) {
	var brokers []*broker
	for _, id := range []string{"n1", "n2"} {
		c := config.Default()
		c.DataDir, c.NodeID, c.NodeListen = t.TempDir(), id, "127.0.0.1:0"
		c.KafkaListen, c.AMQPListen, c.HTTPListen = config.Off, config.Off, config.Off
		c.MQTTListen, c.MQTTWSListen = config.Off, config.Off
		if len(brokers) > 0 {
			c.Join = []string{brokers[0].nodeAddr()}
		}
		b := newBroker(c, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
		t.Cleanup(func() {
			if err := b.close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if err := b.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		brokers = append(brokers, b)
	}
	if c := brokers[1].candidate(); !brokers[1].fresh || c.New {
		t.Errorf("fresh %t, new %t; want a fresh one that is not new any more", brokers[1].fresh, c.New)
	}
	if err := brokers[1].checkIn(t.Context()); err != nil {
		t.Errorf("check-in of a member: %v", err)
	}
}
