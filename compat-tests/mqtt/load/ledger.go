package load

import (
	"fmt"
	"sync"

	"polylog/compat/harness/ledger"
)

// Ledger is what the outside world knows of the messages. It takes down each broken promise: a message
// that is lost, or out of order, or of QoS 2 and there twice.
type Ledger struct {
	ledger.Faults
	mu     sync.Mutex // guards what follows
	lines  map[lineID]*line
	views  []string
	shared map[string]bool // views that see no order
	acked  int             // publishes that were acknowledged
	came   int             // deliveries
	again  int             // of them, of QoS 1, those beyond the first
}

// lineID is what one publisher publishes with one QoS: to one topic name, numbered from 0.
type lineID struct {
	qos       byte
	publisher int
}

// line is what is known of it.
type line struct {
	acked []bool
	seen  map[string][]bool // by view
	last  map[string]int    // by view: the highest number that came, plus one
}

// newLedger is one for views of the messages: each is to see all of them. Those that are shared among
// several subscribers see them in any order.
func newLedger(views map[string]bool) *Ledger {
	l := &Ledger{lines: map[lineID]*line{}, shared: views}
	for v := range views {
		l.views = append(l.views, v)
	}
	return l
}

// sent takes down that the next message of a line is about to be published, and tells its number.
func (l *Ledger) sent(id lineID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lines[id]
	if n == nil {
		n = &line{seen: map[string][]bool{}, last: map[string]int{}}
		l.lines[id] = n
	}
	n.acked = append(n.acked, false)
	for _, v := range l.views {
		n.seen[v] = append(n.seen[v], false)
	}
	return len(n.acked) - 1
}

// ack takes down that a message was acknowledged: PUBACK or PUBREC.
func (l *Ledger) ack(id lineID, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[id].acked[number] = true
	l.acked++
}

// deliver takes down a delivery to a view, and judges it.
func (l *Ledger) deliver(view, who string, id lineID, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lines[id]
	if n == nil || number < 0 || number >= len(n.acked) {
		l.Fail("%s got %d of %+v, which nobody sent", who, number, id)
		return
	}
	l.came++
	switch seen := n.seen[view]; {
	case seen[number] && id.qos == 2:
		l.Fail("%s got %d of %+v twice; the last one was %d", who, number, id, n.last[view]-1)
	case seen[number]:
		l.again++
	case !l.shared[view] && number != n.last[view]:
		l.Fail("%s got %d of %+v after %d", who, number, id, n.last[view]-1)
		fallthrough
	default:
		seen[number] = true
		n.last[view] = max(n.last[view], number+1)
	}
}

// missing are the acknowledged messages that a view has not seen.
func (l *Ledger) missing() (count int, first string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.lines {
		for _, v := range l.views {
			seen := n.seen[v]
			for i, acked := range n.acked {
				if acked && !seen[i] {
					if count++; count == 1 {
						first = fmt.Sprintf("%d of %+v for %s", i, id, v)
					}
				}
			}
		}
	}
	return count, first
}

// behind is how many deliveries are still to come of what was acknowledged.
func (l *Ledger) behind() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked*len(l.views) - (l.came - l.again)
}

func (l *Ledger) counts() (acked, came int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked, l.came
}

// Summary is one line.
func (l *Ledger) Summary() string {
	faults, _ := l.Wrong()
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d acknowledged, %d delivered (%d of QoS 1 again), %d faults", l.acked, l.came, l.again, faults)
}
