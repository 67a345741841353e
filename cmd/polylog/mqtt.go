package main

import (
	"context"
	"errors"
	"net"

	"polylog/protocols/mqtt"
)

// serveMQTT binds the listeners for MQTT, over TCP and over WebSocket.
func (b *broker) serveMQTT(ctx context.Context) error {
	rules, err := mqtt.ParseRules(b.config.MQTTRules.String())
	if err != nil {
		return err // it was validated
	}
	o := mqtt.Options{
		Router: b.router, Rules: rules, Fallback: b.config.MQTTTopic, Clock: b.now, Logger: b.log, Registerer: b.metrics,
		MaxConnections: b.config.MaxConnections, MaxPacketBytes: int(b.config.MQTTMaxPacket), MaxQueued: b.config.MQTTMaxQueued, MaxQueuedBytes: int64(b.config.MQTTMaxQueuedBytes),
		ReceiveMaximum: b.config.MQTTReceiveMaximum, MaxKeepAlive: b.config.MQTTMaxKeepAlive, MaxSessionExpiry: b.config.MQTTMaxSessionExpiry,
		DenySubscribe: b.config.MQTTDenySubscribe.Split(), SysInterval: b.config.MQTTSysInterval, Version: version,
		Clients: &b.clients,
	}
	if o.Listeners, err = b.plainAndTLS(ctx, "mqtt", b.config.MQTTListen, "mqtts", b.config.MQTTSListen); err != nil {
		return err
	}
	if o.WebSockets, err = b.mqttListener(ctx, "mqtt-ws", b.config.MQTTWSListen); err != nil {
		return errors.Join(err, closeAll(o.Listeners))
	}
	if len(o.Listeners)+len(o.WebSockets) == 0 {
		return nil
	}
	s, err := mqtt.New(o)
	if err != nil {
		return errors.Join(err, closeAll(o.Listeners), closeAll(o.WebSockets))
	}
	b.later(s.Close)
	s.Serve()
	return nil
}

func (b *broker) mqttListener(ctx context.Context, name, addr string) ([]net.Listener, error) {
	ln, err := b.listen(ctx, name, addr)
	if ln == nil {
		return nil, err
	}
	return []net.Listener{ln}, nil
}

func closeAll(ls []net.Listener) error {
	var err error
	for _, l := range ls {
		err = errors.Join(err, l.Close())
	}
	return err
}
