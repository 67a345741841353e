package mqtt

import (
	"strconv"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"

	"polylog/core"
	"polylog/router"
)

// delayedPrefix begins the topic names of publishes that are to wait: $delayed/SECONDS/name, as
// other brokers have them.
const delayedPrefix = "$delayed/"

// splitDelay takes the delay, in s, off a topic name. A name that has none, or a wrong one, is left
// as it is: who publishes to it is refused as to any other that begins with $.
func splitDelay(name string) (delay uint32, rest string) {
	after, ok := strings.CutPrefix(name, delayedPrefix)
	if !ok {
		return 0, name
	}
	number, rest, _ := strings.Cut(after, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || rest == "" {
		return 0, name
	}
	return uint32(n), rest
}

// storeDelayed publishes a message that is to wait.
func (p *publisher) storeDelayed(to target, pk *packets.Packet, delay uint32, ack uint64) {
	p.store(to, pk, delay, ack, func(seq *core.Sequence, m router.MQTTMessage, done func(router.PublishResult)) {
		p.c.srv.router.PublishDelayed(p.c.principal, seq, delay, m, done)
	})
}

// store publishes a message by a command of its own, which propose makes of it. Its expiry counts
// from the end of its delay.
func (p *publisher) store(to target, pk *packets.Packet, delay uint32, ack uint64, propose func(*core.Sequence, router.MQTTMessage, func(router.PublishResult))) {
	p.flush() // what came before
	var acks []uint64
	if pk.FixedHeader.Qos > 0 {
		acks = []uint64{ack}
	}
	m, err := p.c.messageOf(to, pk, p.c.srv.now()+1000*int64(delay))
	if err != nil {
		p.stored(acks, 1, 0, err)
		return
	}
	if !p.take(len(m.Batch)) {
		return
	}
	propose(p.sequence(acks), m, func(res router.PublishResult) { p.stored(acks, 1, len(m.Batch), res.Err) })
}
