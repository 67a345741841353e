package load

import (
	"fmt"
	"sync"
	"time"

	"polylog/compat/harness/ledger"
)

// id is a message: the sequence of a producer in a queue.
type id struct {
	queue    int
	producer int
	seq      int
}

// fate is what is known of a message.
type fate struct {
	confirmed bool
	delivered int
	fresh     string    // who got it without the flag, and when; "": nobody
	acked     time.Time // when an acknowledgement was sent
	committed bool      // and its transaction was committed
}

// onItsWay is how long an acknowledgement may take to arrive for good. It is far more than any takes.
const onItsWay = 2 * time.Second

// Ledger is what the outside world knows of the messages. It takes down each broken promise: a message
// that is lost, or comes again where it must not, or without its flag, or out of order.
type Ledger struct {
	ledger.Faults
	mu        sync.Mutex
	fates     map[id]*fate
	confirmed int
	acked     int
	refused   int       // by nack
	again     int       // deliveries beyond the first
	maybe     int       // deliveries of messages whose acknowledgement was on its way when the broker was killed
	kill      time.Time // the last one
}

func newLedger() *Ledger {
	return &Ledger{fates: map[id]*fate{}}
}

// Killed takes down that the broker was killed, just now. Acknowledgements that were sent long before
// are known to be the broker's from then on.
func (l *Ledger) Killed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill = time.Now()
}

// sent takes down that a message is about to be published.
func (l *Ledger) sent(m id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates[m] = &fate{}
}

func (l *Ledger) confirm(m id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates[m].confirmed = true
	l.confirmed++
}

func (l *Ledger) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
}

// deliver takes down a delivery and judges it.
func (l *Ledger) deliver(m id, redelivered bool, who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fates[m]
	if f == nil {
		l.Fail("%s: %+v was delivered, which nobody sent", who, m)
		return
	}
	// Of two consumers, the one that got it first may take note of it last: its connection may be closed
	// by then, and the message already with the other one. But only one of them gets it as a new one.
	if !redelivered {
		got := fmt.Sprintf("%s at %s", who, time.Now().Format(time.StampMilli))
		if f.fresh != "" {
			l.Fail("%s: %+v is not flagged; %s got it without the flag, too", got, m, f.fresh)
		}
		f.fresh = got
	}
	if f.delivered++; f.delivered == 1 {
		return
	}
	l.again++
	switch {
	case f.committed:
		l.Fail("%s: %+v was delivered again after the transaction of its acknowledgement", who, m)
	case !f.acked.IsZero() && l.kill.Sub(f.acked) > onItsWay:
		l.Fail("%s: %+v was delivered again; it was acknowledged %v before the kill", who, m, l.kill.Sub(f.acked))
	case !f.acked.IsZero():
		l.maybe++
	}
}

// ack takes down that messages are about to be acknowledged.
func (l *Ledger) ack(ms []id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, m := range ms {
		if f := l.fates[m]; f != nil { // deliver has told of others
			f.acked = now
			l.acked++
		}
	}
}

// commit takes down that the transaction of acknowledgements was committed.
func (l *Ledger) commit(ms []id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range ms {
		if f := l.fates[m]; f != nil {
			f.committed = true
		}
	}
}

// missing are the confirmed messages that nobody was given.
func (l *Ledger) missing() (n int, first id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m, f := range l.fates {
		if f.confirmed && f.delivered == 0 {
			if n == 0 {
				first = m
			}
			n++
		}
	}
	return n, first
}

func (l *Ledger) counts() (confirmed, acked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.confirmed, l.acked
}

// Summary is one line.
func (l *Ledger) Summary() string {
	faults, _ := l.Wrong()
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d confirmed, %d refused, %d acknowledged, %d delivered again (%d with their acknowledgement on its way), %d faults",
		l.confirmed, l.refused, l.acked, l.again, l.maybe, faults)
}
