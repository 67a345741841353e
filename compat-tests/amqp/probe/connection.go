package probe

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// connection is how connections and channels are opened and closed.
var connection = []Probe{
	{"what the server says of itself", func(e *env) {
		p := e.connection().Properties
		caps, _ := p["capabilities"].(table)
		e.say("properties: %s", strings.Join(slices.Sorted(maps.Keys(p)), " "))
		e.say("capabilities: %s", strings.Join(slices.Sorted(maps.Keys(caps)), " "))
		for _, name := range slices.Sorted(maps.Keys(caps)) {
			if caps[name] != true {
				e.say("%s is %v", name, caps[name])
			}
		}
	}},
	{"product and version", func(e *env) {
		p := e.connection().Properties
		var major, minor, patch int
		n, _ := fmt.Sscanf(fmt.Sprint(p["version"]), "%d.%d.%d", &major, &minor, &patch)
		e.say("product %v, version %d.%d of %d numbers", p["product"], major, minor, n)
	}},
	{"mechanisms and locales", func(e *env) {
		r := e.raw()
		g := r.start()
		text := string(g.payload)
		for _, s := range []string{"PLAIN", "AMQPLAIN", "ANONYMOUS", "EXTERNAL", "RABBIT-CR-DEMO", "en_US"} {
			e.say("%s: %v", s, strings.Contains(text, s))
		}
		e.say("version %d.%d", g.payload[4], g.payload[5])
	}},
	{"protocol headers", func(e *env) {
		for _, h := range []string{"HELLOHEL", "AMQP\x01\x01\x08\x00", "AMQP\x00\x00\x08\x00", "AMQP\x01\x01\x09\x01", "AMQP\x05\x00\x00\x00", "AMQP\x00\x00\x0a\x00"} {
			e.say("%q: %s", h, headerAnswer(e, h))
		}
	}},
	{"protocol header 1.1.0.9", func(e *env) { e.say("%s", headerAnswer(e, "AMQP\x01\x01\x00\x09")) }},
	{"protocol header 0.0.9.0", func(e *env) { e.say("%s", headerAnswer(e, "AMQP\x00\x00\x09\x00")) }},
	{"protocol header 0.0.9.2", func(e *env) { e.say("%s", headerAnswer(e, "AMQP\x00\x00\x09\x02")) }},
	{"protocol header AMQP 1.0 with SASL", func(e *env) { e.say("%s", headerAnswer(e, "AMQP\x03\x01\x00\x00")) }},
	{"protocol header AMQP 1.0", func(e *env) { e.say("%s", headerAnswer(e, "AMQP\x00\x01\x00\x00")) }},
	{"half a protocol header, then the end", func(e *env) {
		r := e.raw()
		r.put([]byte("AMQ"))
		r.closeWrite()
		e.say("%s", r.read())
	}},
	{"PLAIN", func(e *env) { e.say("%s", e.raw().login("PLAIN", plainGuest, capabilities)) }},
	{"AMQPLAIN", func(e *env) {
		response := fields(shortstr("LOGIN"), []byte{'S'}, longstr("guest"), shortstr("PASSWORD"), []byte{'S'}, longstr("guest"))[4:]
		e.say("%s", e.raw().login("AMQPLAIN", string(response), capabilities))
	}},
	{"AMQPLAIN, wrong password", func(e *env) {
		response := fields(shortstr("LOGIN"), []byte{'S'}, longstr("guest"), shortstr("PASSWORD"), []byte{'S'}, longstr("wrong"))[4:]
		e.say("%s", e.raw().login("AMQPLAIN", string(response), capabilities))
	}},
	{"AMQPLAIN without a password", func(e *env) {
		response := fields(shortstr("LOGIN"), []byte{'S'}, longstr("guest"))[4:]
		e.say("%s", e.raw().login("AMQPLAIN", string(response), capabilities))
	}},
	{"an unknown mechanism", func(e *env) { e.say("%s", e.raw().login("NONSENSE", "x", capabilities)) }},
	{"a malformed PLAIN response", func(e *env) { e.say("%s", e.raw().login("PLAIN", "guest", capabilities)) }},
	{"PLAIN with an authorization id", func(e *env) { e.say("%s", e.raw().login("PLAIN", "other\x00guest\x00guest", capabilities)) }},
	{"wrong password", func(e *env) { e.say("%s", e.raw().login("PLAIN", "\x00guest\x00wrong", capabilities)) }},
	{"unknown user", func(e *env) { e.say("%s", e.raw().login("PLAIN", "\x00nobody\x00guest", capabilities)) }},
	{"wrong password without the capability", func(e *env) { e.say("%s", e.raw().login("PLAIN", "\x00guest\x00wrong", nil)) }},
	{"tune", func(e *env) { e.say("%s", e.raw().login("PLAIN", plainGuest, capabilities)) }},
	{"tune-ok as offered", func(e *env) { e.say("%s", e.raw().tune(2047, 131072, 60, "/")) }},
	{"tune-ok, channel_max 0", func(e *env) { e.say("%s", e.raw().tune(0, 131072, 0, "/")) }},
	{"tune-ok, channel_max above", func(e *env) { e.say("%s", e.raw().tune(3000, 131072, 0, "/")) }},
	{"tune-ok, frame_max 0", func(e *env) { e.say("%s", e.raw().tune(2047, 0, 0, "/")) }},
	{"tune-ok, frame_max above", func(e *env) { e.say("%s", e.raw().tune(2047, 200000, 0, "/")) }},
	{"tune-ok, frame_max 4096", func(e *env) { e.say("%s", e.raw().tune(2047, 4096, 0, "/")) }},
	{"tune-ok, frame_max 4095", func(e *env) { e.say("%s", e.raw().tune(2047, 4095, 0, "/")) }},
	{"tune-ok, heartbeat above", func(e *env) { e.say("%s", e.raw().tune(2047, 131072, 600, "/")) }},
	{"unknown virtual host", func(e *env) { e.say("%s", e.raw().tune(2047, 131072, 0, "nowhere")) }},
	{"open before tune-ok", func(e *env) {
		r := e.raw()
		r.login("PLAIN", plainGuest, capabilities)
		r.put(method(0, 10, 40, shortstr("/"), shortstr(""), octet(0)))
		e.say("%s", r.read())
	}},
	{"a method before the handshake is over", func(e *env) {
		r := e.raw()
		r.start()
		r.put(method(1, 20, 10, shortstr("")))
		e.say("%s", r.read())
	}},
	{"close is answered", func(e *env) {
		r := e.opened()
		r.put(method(0, 10, 50, short(200), shortstr("bye"), short(0), short(0)))
		e.say("%s", r.reads(2))
	}},
	{"what is sent behind close is not read", func(e *env) {
		r := e.opened()
		r.put(method(0, 10, 50, short(200), shortstr("bye"), short(0), short(0)), declareQueue(1, e.name("after"), 0))
		e.say("%s", r.reads(2))
		e.say("there: %v", e.ready(e.name("after")) >= 0)
	}},
	{"close while logging in", func(e *env) {
		r := e.raw()
		r.login("PLAIN", plainGuest, capabilities)
		r.put(method(0, 10, 50, short(200), shortstr("bye"), short(0), short(0)))
		e.say("%s", r.reads(2))
	}},
	{"heartbeats come and a silent client goes", func(e *env) {
		r := e.raw()
		e.say("%s", r.tune(2047, 131072, 1, "/"))
		beats := 0
		for {
			g := r.frame(patience)
			if g.err != nil {
				e.say("some heartbeats: %v, then %s", beats > 0, g)
				return
			}
			beats++
		}
	}},
	{"any traffic is a heartbeat", func(e *env) {
		r := e.raw()
		r.tune(2047, 131072, 1, "/")
		r.put(method(1, 20, 10, shortstr("")))
		for range 8 {
			e.wait(500 * time.Millisecond)
			r.put(method(1, 20, 20, octet(1)))
		}
		flows := 0
		for flows < 8 {
			g := r.frame(patience)
			if g.err != nil {
				e.say("after %d answers %s", flows, g)
				return
			}
			if strings.HasPrefix(g.String(), "channel.flow-ok") {
				flows++
			}
		}
		e.say("alive after four seconds")
	}},
	{"heartbeat 0 sends none", func(e *env) {
		r := e.opened()
		g := r.frame(3 * time.Second)
		e.say("%s", g)
	}},
	{"update-secret", func(e *env) {
		e.say("%s", describe(e.connection().UpdateSecret("guest", "renewed")))
		e.try("and then", barrier)
	}},
	{"channel.open twice", func(e *env) {
		r := e.opened()
		r.put(method(1, 20, 10, shortstr("")))
		e.say("%s", r.read())
	}},
	{"a method on a channel that is not open", func(e *env) {
		r := e.opened()
		r.put(method(2, 60, 10, long(0), short(1), octet(0)))
		e.say("%s", r.read())
	}},
	{"channel.close on a channel that is not open", func(e *env) {
		r := e.opened()
		r.put(method(2, 20, 40, short(200), shortstr(""), short(0), short(0)))
		e.say("%s", r.read())
	}},
	{"channel.close-ok that nobody asked for", func(e *env) {
		r := e.opened()
		r.put(method(2, 20, 41))
		r.put(method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
	}},
	{"a basic method on channel 0", func(e *env) {
		r := e.opened()
		r.put(method(0, 60, 10, long(0), short(1), octet(0)))
		e.say("%s", r.read())
	}},
	{"a connection method on channel 1", func(e *env) {
		r := e.opened()
		r.put(method(1, 10, 50, short(200), shortstr("bye"), short(0), short(0)))
		e.say("%s", r.read())
	}},
	{"a channel number above channel_max", func(e *env) {
		r := e.opened()
		r.put(method(3000, 20, 10, shortstr("")))
		e.say("%s", r.read())
	}},
	{"more channels than channel_max", func(e *env) {
		r := e.raw()
		r.tune(2, 131072, 0, "/")
		for i := 1; i <= 3; i++ {
			r.put(method(i, 20, 10, shortstr("")))
			e.say("%d: %s", i, r.read())
		}
	}},
	{"a channel number is free again after close", func(e *env) {
		r := e.opened()
		r.put(method(1, 20, 40, short(200), shortstr(""), short(0), short(0)), method(1, 20, 10, shortstr("")))
		e.say("%s", r.reads(2))
	}},
	{"after a channel error everything is dropped until close-ok", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(method(1, 60, 80, longlong(7), octet(0)))
		e.say("%s", r.read())
		r.put(message(1, "", q, 0, "dropped"), method(1, 20, 41), method(1, 20, 10, shortstr("")))
		e.say("%s", r.read())
		r.put(message(1, "", q, 0, "kept"), method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
		e.awaitReady(q, 1)
		e.say("%s", e.drain(q))
	}},
	{"channel.flow", func(e *env) {
		e.try("active", func(ch *amqp.Channel) error { return ch.Flow(true) })
		e.try("not active", func(ch *amqp.Channel) error { return ch.Flow(false) })
	}},
	{"access.request", func(e *env) {
		r := e.opened()
		r.put(method(1, 30, 10, shortstr("/data"), octet(0x1f)))
		e.say("%s", r.read())
	}},
	{"exclusive queues go with their connection", func(e *env) {
		c := e.dial()
		ch, err := c.Channel()
		e.must(err)
		_, err = declare(ch, e.name("x"), "x", nil)
		e.must(err)
		e.must(c.Close())
		e.await("gone", func() bool { return e.ready(e.name("x")) < 0 })
		e.say("gone")
	}},
	{"two thousand channels on one connection", func(e *env) {
		c := e.dial()
		n := 0
		for range 2047 {
			if _, err := c.Channel(); err != nil {
				e.say("%s", describe(err))
				break
			}
			n++
		}
		e.say("%d channels", n)
	}},
}

// closeWrite ends our half of the connection.
func (r *raw) closeWrite() {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		r.e.must(c.CloseWrite())
	}
}

// headerAnswer is what a protocol header is answered with: the server's own header, or a frame.
func headerAnswer(e *env, header string) string {
	r := e.raw()
	r.put([]byte(header))
	e.must(r.SetReadDeadline(time.Now().Add(4 * time.Second)))
	first, err := r.r.Peek(1)
	if err != nil {
		return got{err: err}.String()
	}
	if first[0] == frameMethod {
		return r.read()
	}
	b := make([]byte, 8)
	if _, err := io.ReadFull(r.r, b); err != nil {
		return got{err: err}.String()
	}
	return fmt.Sprintf("%q, then %s", b, r.read())
}
