package load

import (
	"fmt"
	"sync"

	"polylog/compat/harness/ledger"
)

// Message is what is published: message number N of a key, counting from 0.
type Message struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

// Ledger has what was published, and what came of it to each subscription: each message at least once,
// always under one id, which is no other's. A subscription that is in order gets a message when all before
// it of its key are done. Its methods may be called at any time.
type Ledger struct {
	ledger.Faults

	mu        sync.Mutex
	published map[string]int // by key: how many
	total     int
	books     map[string]*book // by subscription
}

// book is what came to one subscription.
type book struct {
	ordered bool
	ids     map[string]Message
	came    map[Message]string // its id
	done    map[Message]bool
	before  map[string]int // by key: the first that is not done, and with it all before it are
	again   int            // requests for what was done
	failed  int            // requests that were answered with an error
}

// NewLedger is empty, and has these subscriptions; those that are true are in order.
func NewLedger(subscriptions map[string]bool) *Ledger {
	l := &Ledger{published: map[string]int{}, books: map[string]*book{}}
	for name, ordered := range subscriptions {
		l.books[name] = &book{ordered: ordered, ids: map[string]Message{}, came: map[Message]string{}, done: map[Message]bool{}, before: map[string]int{}}
	}
	return l
}

// Next are the next messages of a key, which count as published from now on: they may come before their
// publisher hears of it.
func (l *Ledger) Next(key string) Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := Message{Key: key, N: l.published[key]}
	l.published[key]++
	l.total++
	return m
}

// Came takes down that a subscription's message comes, under an id.
func (l *Ledger) Came(subscription, id string, m Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.books[subscription]
	if !ok {
		l.Fail("%v came to %q, which nobody made", m, subscription)
		return
	}
	if m.N >= l.published[m.Key] || m.N < 0 {
		l.Fail("%s: %v was never published", subscription, m)
	}
	if other, ok := b.ids[id]; ok && other != m {
		l.Fail("%s: id %s is that of %v and of %v", subscription, id, other, m)
	}
	if other, ok := b.came[m]; ok && other != id {
		l.Fail("%s: %v has the ids %s and %s", subscription, m, other, id)
	}
	b.ids[id], b.came[m] = m, id
	if b.done[m] {
		b.again++
	}
	if b.ordered && m.N > b.before[m.Key] {
		l.Fail("%s: %v comes before number %d of its key is done", subscription, m, b.before[m.Key])
	}
}

// Done takes down that the endpoint takes a message that came.
func (l *Ledger) Done(subscription string, m Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[subscription]
	b.done[m] = true
	for b.done[Message{Key: m.Key, N: b.before[m.Key]}] {
		b.before[m.Key]++
	}
}

// Failed takes down that the endpoint did not take a message that came.
func (l *Ledger) Failed(subscription string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.books[subscription].failed++
}

// Waiting is how many messages are not done in the subscription that is furthest behind.
func (l *Ledger) Waiting() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.books {
		n = max(n, l.total-len(b.done))
	}
	return n
}

// Deliveries is how many messages are done, in all subscriptions.
func (l *Ledger) Deliveries() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.books {
		n += len(b.done)
	}
	return n
}

// End fails for each message that is not done.
func (l *Ledger) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, b := range l.books {
		for key, n := range l.published {
			for i := range n {
				if m := (Message{Key: key, N: i}); !b.done[m] {
					l.Fail("%s: %v is lost", name, m)
				}
			}
		}
	}
}

// Summary is one line.
func (l *Ledger) Summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	done, again, failed := 0, 0, 0
	for _, b := range l.books {
		done, again, failed = done+len(b.done), again+b.again, failed+b.failed
	}
	return fmt.Sprintf("%d published, %d delivered, %d of them again, %d refused on purpose", l.total, done, again, failed)
}
