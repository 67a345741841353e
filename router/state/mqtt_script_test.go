package state

import (
	"fmt"
	"strings"

	"polylog/core"
)

// mqttCommand has the commands about sessions of MQTT. CLIENT holds its lease by TOKEN:
//
//	mqtt-connect CLIENT TOKEN                          the session does not end with its connection
//	mqtt-subscribe CLIENT TOKEN FILTER [share=NAME]    with QoS 2
//	mqtt-assign CLIENT TOKEN                           lines: PACKET QUEUE GROUP OFFSET
//	mqtt-receive CLIENT TOKEN PACKET…
//	mqtt-complete CLIENT TOKEN PACKET…
func (s *script) mqttCommand() (core.Command, func(core.Result) string) {
	words := make([]string, 0, len(s.d.CmdArgs))
	for _, a := range s.d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
		}
	}
	if !strings.HasPrefix(s.d.Cmd, "mqtt-") || len(words) < 2 {
		return s.unknown()
	}
	leased := MQTTLeased{Lease: MQTTLease(core.TopicName(words[0])), Token: uint64(s.number(words[1]))}
	words = words[2:]
	flow := FlowMQTT{MQTTLeased: leased}
	switch s.d.Cmd {
	case "mqtt-connect":
		c := OpenMQTT{MQTTLeased: leased, Expiry: MQTTNoExpiry}
		return c.Command(), func(r core.Result) string {
			present, number, _, err := DecodeMQTTOpened(r.Body)
			s.must(err)
			return fmt.Sprintf(" session %d present=%v", number, present)
		}
	case "mqtt-subscribe":
		u := MQTTSubscription{Filter: words[0], Options: 2}
		u.Share, _ = s.option("share")
		c := SubscribeMQTT{MQTTLeased: leased, MaxQueued: 100, Subscriptions: []MQTTSubscription{u}}
		return c.Command(), func(r core.Result) string {
			existed, err := DecodeMQTTSubscribed(r.Body, c.Subscriptions)
			s.must(err)
			return fmt.Sprintf(" queue %d group %q existed=%v", c.Subscriptions[0].Queue, c.Subscriptions[0].Group, existed[0])
		}
	case "mqtt-assign":
		flow.Step = MQTTAssign
		for _, f := range s.lines() {
			flow.Assigned = append(flow.Assigned, MQTTAssigned{
				PacketID: uint16(s.number(f[0])), QoS: 2, Queue: s.queue(f[1]), Group: f[2], Offset: core.Offset(s.number(f[3])),
			})
		}
	case "mqtt-receive":
		flow.Step = MQTTReceive
	case "mqtt-complete":
		flow.Step = MQTTComplete
	default:
		return s.unknown()
	}
	for _, w := range words {
		flow.Packets = append(flow.Packets, uint16(s.number(w)))
	}
	return flow.Command(), func(r core.Result) string {
		var b strings.Builder
		for _, k := range DecodeKinds(r.Body) {
			fmt.Fprintf(&b, " [%s]", k.Error())
		}
		return b.String()
	}
}

func (s *script) unknown() (core.Command, func(core.Result) string) {
	s.t.Fatalf("%s: unknown command %s", s.d.Pos, s.d.Cmd)
	return core.Command{}, nil
}
