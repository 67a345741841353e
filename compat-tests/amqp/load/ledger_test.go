package load

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestLedger: what is wrong is found, and nothing else.
func TestLedger(t *testing.T) {
	a, b := id{seq: 0}, id{seq: 1}
	long := -2 * onItsWay
	for name, c := range map[string]struct {
		happens func(l *Ledger)
		missing int
		wrong   string // what the first failure says; empty: none
	}{
		"all":                   {func(l *Ledger) { l.deliver(a, false, "x"); l.deliver(b, false, "x") }, 0, ""},
		"nothing":               {func(*Ledger) {}, 2, ""},
		"again, flagged":        {func(l *Ledger) { l.deliver(a, false, "x"); l.deliver(a, true, "x") }, 1, ""},
		"again, not flagged":    {func(l *Ledger) { l.deliver(a, false, "x"); l.deliver(a, false, "x") }, 1, "not flagged"},
		"again, seen first":     {func(l *Ledger) { l.deliver(a, true, "y"); l.deliver(a, false, "x") }, 1, ""},
		"not sent":              {func(l *Ledger) { l.deliver(id{seq: 2}, false, "x") }, 2, "nobody sent"},
		"another queue's":       {func(l *Ledger) { l.deliver(id{queue: 1}, false, "x") }, 2, "nobody sent"},
		"after its transaction": {func(l *Ledger) { l.deliver(a, false, "x"); l.commit([]id{a}); l.deliver(a, true, "x") }, 1, "after the transaction"},
		"acknowledgement on its way": {func(l *Ledger) {
			l.deliver(a, false, "x")
			l.ack([]id{a})
			l.Killed()
			l.deliver(a, true, "x")
		}, 1, ""},
		"acknowledged long before the kill": {func(l *Ledger) {
			l.deliver(a, false, "x")
			l.ack([]id{a})
			l.fates[a].acked = l.fates[a].acked.Add(long)
			l.Killed()
			l.deliver(a, true, "x")
		}, 1, "before the kill"},
	} {
		l := newLedger()
		for _, m := range []id{a, b} {
			l.sent(m)
			l.confirm(m)
		}
		c.happens(l)
		n, wrong := l.Wrong()
		missing, _ := l.missing()
		if missing != c.missing || (n > 0) != (c.wrong != "") || n > 0 && !strings.Contains(wrong[0], c.wrong) {
			t.Errorf("%s: %d missing, %q; want %d, %q", name, missing, wrong, c.missing, c.wrong)
		}
	}
}

// TestUnconfirmedIsNotMissing: nobody was promised a message that was not confirmed.
func TestUnconfirmedIsNotMissing(t *testing.T) {
	l := newLedger()
	l.sent(id{})
	if n, _ := l.missing(); n != 0 {
		t.Errorf("%d missing", n)
	}
}

// TestOrder: a consumer finds what comes before another of the same connection of its producer.
func TestOrder(t *testing.T) {
	body := func(s string) amqp.Delivery { return amqp.Delivery{Body: []byte(s)} }
	for name, c := range map[string]struct {
		came  []amqp.Delivery
		wrong string
	}{
		"in order":          {[]amqp.Delivery{body("0 0 0 x"), body("0 1 0 x")}, ""},
		"out of order":      {[]amqp.Delivery{body("0 1 0 x"), body("0 0 0 x")}, "came after 1"},
		"flagged":           {[]amqp.Delivery{body("0 1 0 x"), {Body: []byte("0 0 0 x"), Redelivered: true}}, ""},
		"other connections": {[]amqp.Delivery{body("0 1 1 x"), body("0 0 0 x")}, ""},
		"not ours":          {[]amqp.Delivery{body("hello")}, "body"},
	} {
		l := New("nowhere")
		for seq := range 2 {
			l.Ledger.sent(id{seq: seq})
		}
		con, last := consumer{Load: l, who: "x"}, map[session]int{}
		for _, d := range c.came {
			con.judge(d, last)
		}
		n, wrong := l.Ledger.Wrong()
		if (n > 0) != (c.wrong != "") || n > 0 && !strings.Contains(wrong[0], c.wrong) {
			t.Errorf("%s: %q; want %q", name, wrong, c.wrong)
		}
	}
}
