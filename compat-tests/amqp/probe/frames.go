package probe

import (
	"bytes"
	"fmt"
	"strings"
)

// frames is what is sent that should not be.
var frames = []Probe{
	{"heartbeat on channel 1", one(func(string) []byte { return frame(frameBeat, 1) })},
	{"a body without a method", one(func(string) []byte { return frame(frameBody, 1, []byte("x")) })},
	{"a header without a method", one(func(string) []byte { return header(1, 0) })},
	{"a header of another class", one(func(q string) []byte {
		return append(publishMethod(1, "", q, 0), frame(frameHeader, 1, short(50), short(0), longlong(0), short(0))...)
	})},
	{"a method instead of a header", one(func(q string) []byte {
		return append(publishMethod(1, "", q, 0), method(1, 60, 10, long(0), short(1), octet(0))...)
	})},
	{"a method instead of a body", one(func(q string) []byte {
		return bytes.Join([][]byte{publishMethod(1, "", q, 0), header(1, 5), method(1, 60, 10, long(0), short(1), octet(0))}, nil)
	})},
	{"a body instead of a header", one(func(q string) []byte {
		return append(publishMethod(1, "", q, 0), frame(frameBody, 1, []byte("x"))...)
	})},
	{"a body that is longer than its header says", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(publishMethod(1, "", q, 0), header(1, 1), frame(frameBody, 1, []byte("xx")))
		e.say("%s", r.rest())
	}},
	{"a body frame of no bytes amid a body", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(publishMethod(1, "", q, 0), header(1, 2), frame(frameBody, 1, []byte("a")), frame(frameBody, 1), frame(frameBody, 1, []byte("b")))
		r.put(method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
		e.say("%s", e.drainAfter(q, 1))
	}},
	{"another channel amid a message", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(method(2, 20, 10, shortstr("")))
		e.say("%s", r.read())
		r.put(publishMethod(1, "", q, 0), publishMethod(2, "", q, 0), header(1, 1), header(2, 1), frame(frameBody, 1, []byte("a")),
			method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
		r.put(frame(frameBody, 2, []byte("b")), method(2, 20, 20, octet(1)))
		e.say("%s", r.read())
		e.say("%s", e.drainAfter(q, 2))
	}},
	{"half a message, then the end", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(publishMethod(1, "", q, 0), header(1, 100), frame(frameBody, 1, []byte("half")))
		e.must(r.Close())
		e.fill(q, "whole")
		e.say("%s", e.drainAfter(q, 1))
	}},
	{"a wrong frame end", one(func(string) []byte {
		b := method(1, 60, 10, long(0), short(1), octet(0))
		b[len(b)-1] = 0
		return b
	})},
	{"a frame that is too large", one(func(string) []byte {
		return bytes.Join([][]byte{octet(frameBody), short(1), long(140000), make([]byte, 100)}, nil)
	})},
	{"a frame that is larger than what was agreed", func(e *env) {
		r := e.raw()
		r.tune(2047, 4096, 0, "/")
		r.put(method(1, 20, 10, shortstr("")))
		r.read()
		r.put(publishMethod(1, "", "q", 0), header(1, 5000), frame(frameBody, 1, make([]byte, 5000)))
		s := r.read()
		e.say("%.60s", s)
	}},
	{"a frame of 4 GiB", one(func(string) []byte {
		return bytes.Join([][]byte{octet(frameMethod), short(1), {0xff, 0xff, 0xff, 0xff}, make([]byte, 100)}, nil)
	})},
	{"an unknown frame type", one(func(string) []byte { return frame(9, 1, []byte("abc")) })},
	{"an unknown class", one(func(string) []byte { return method(1, 99, 1) })},
	{"an unknown method", one(func(string) []byte { return method(1, 60, 99) })},
	{"a method that only servers send", one(func(string) []byte { return method(1, 60, 60) })},
	{"a method frame of two bytes", one(func(string) []byte { return frame(frameMethod, 1, short(60)) })},
	{"a method without its arguments", one(func(string) []byte { return method(1, 50, 10, short(0)) })},
	{"a short string that runs over", one(func(string) []byte { return method(1, 50, 10, short(0), octet(200), []byte("abc")) })},
	{"a table that runs over", one(func(q string) []byte {
		return method(1, 50, 10, short(0), shortstr(q), octet(2), long(1000), []byte("abc"))
	})},
	{"an unknown field type", one(func(q string) []byte {
		return declareQueue(1, q, 2, shortstr("x-a"), []byte{'?', 1, 2, 3})
	})},
	{"a table a hundred deep", func(e *env) {
		q := e.name("q")
		inner := fields()
		for range 100 {
			inner = fields(shortstr("t"), []byte{'F'}, inner)
		}
		r := e.opened()
		r.put(method(1, 50, 10, short(0), shortstr(q), octet(2), inner))
		e.say("%.50s", r.read())
	}},
	{"a header with a body of a terabyte", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(publishMethod(1, "", q, 0), header(1, 1<<40), frame(frameBody, 1, []byte("a")))
		e.say("%.70s", r.read())
	}},
	{"a header of three bytes", one(func(q string) []byte {
		return append(publishMethod(1, "", q, 0), frame(frameHeader, 1, []byte{0, 60, 0})...)
	})},
	{"a header whose properties run over", one(func(q string) []byte {
		return append(publishMethod(1, "", q, 0), frame(frameHeader, 1, short(60), short(0), longlong(0), short(0x8000), octet(50), []byte("x"))...)
	})},
	{"a header with bytes behind its properties", one(func(q string) []byte {
		return append(publishMethod(1, "", q, 0), frame(frameHeader, 1, short(60), short(0), longlong(0), short(0), []byte("more"))...)
	})},
	{"nowait has no answer", func(e *env) {
		r := e.opened()
		r.put(declareQueue(1, "", 0x1c), method(1, 60, 10, long(0), short(1), octet(0)))
		e.say("%s", r.read())
	}},
	{"nowait for everything", func(e *env) {
		x, q := e.name("x"), e.name("q")
		r := e.opened()
		r.put(
			method(1, 40, 10, short(0), shortstr(x), shortstr("fanout"), octet(0x10), fields()),
			declareQueue(1, q, 0x10),
			method(1, 50, 20, short(0), shortstr(q), shortstr(x), shortstr(""), octet(1), fields()),
			method(1, 85, 10, octet(1)),
			message(1, x, "", 0, "m"),
		)
		e.say("%s", r.read())
		r.put(method(1, 60, 20, short(0), shortstr(q), shortstr("tag"), octet(0x08|0x02), fields()))
		e.say("%s", r.reads(3))
		r.put(
			method(1, 60, 30, shortstr("tag"), octet(1)),
			method(1, 50, 30, short(0), shortstr(q), octet(1)),
			method(1, 50, 40, short(0), shortstr(q), octet(4)),
			method(1, 40, 20, short(0), shortstr(x), octet(2)),
			method(1, 20, 20, octet(1)),
		)
		e.say("%s", r.read())
		e.say("queue there: %v", e.ready(q) >= 0)
	}},
	{"a nowait that fails", func(e *env) {
		r := e.opened()
		r.put(method(1, 50, 20, short(0), shortstr("nowhere"), shortstr("amq.direct"), shortstr(""), octet(1), fields()))
		e.say("%s", r.read())
	}},
	{"a publish of no bytes has no body frame", func(e *env) {
		q := e.queue("q", "d", nil)
		r := e.opened()
		r.put(message(1, "", q, 0, ""), method(1, 60, 70, short(0), shortstr(q), octet(1)))
		e.say("%s", r.reads(2))
		r.put(method(1, 20, 20, octet(1)))
		e.say("%s", r.read())
	}},
	{"returns come before their confirms", func(e *env) {
		r := e.opened()
		r.put(method(1, 85, 10, octet(0)))
		e.say("%s", r.read())
		for range 3 {
			r.put(message(1, "", "nowhere", 1, ""))
		}
		returned, acked, early := 0, 0, false
		for acked < 3 {
			s := r.read()
			n := 0
			switch {
			case strings.HasPrefix(s, "basic.return"):
				returned++
			case strings.HasPrefix(s, "header"):
			default: // an ack may be of several
				if _, err := fmt.Sscanf(s, "basic.ack on 1 %d", &n); err != nil {
					e.say("%s", s)
					return
				}
				acked = n
			}
			early = early || acked > returned
		}
		e.say("%d returned, an ack before its return: %v", returned, early)
	}},
	{"names lose line breaks", func(e *env) {
		q := e.name("a\r\nb")
		r := e.opened()
		r.put(declareQueue(1, q, 0))
		e.say("%s", r.read())
		e.say("without: %v", e.ready(strings.NewReplacer("\r", "", "\n", "").Replace(q)) >= 0)
	}},
	{"names of 255 bytes", func(e *env) {
		q := e.name("")
		q += strings.Repeat("n", 255-len(q))
		r := e.opened()
		r.put(declareQueue(1, q, 0))
		e.say("%s", r.read())
		r.put(method(1, 50, 20, short(0), shortstr(q), shortstr("amq.direct"), shortstr(strings.Repeat("k", 255)), octet(0), fields()))
		e.say("%s", r.read())
	}},
	{"names in UTF-8 and names that are none", func(e *env) {
		r := e.opened()
		r.put(declareQueue(1, e.name("größe"), 0))
		e.say("%s", r.read())
		r.put(declareQueue(1, e.name("\xff\xfe"), 0))
		e.say("%s", r.read())
	}},
}

// one sends a piece of bytes on an open channel and tells the next frame. The piece may use the name
// of a queue, which is not there.
func one(piece func(queue string) []byte) func(*env) {
	return func(e *env) {
		r := e.opened()
		r.put(piece(e.name("q")))
		e.say("%s", r.read())
	}
}
