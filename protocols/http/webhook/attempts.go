package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"polylog/core"
	"polylog/core/message"
	"polylog/router"
)

// AttemptsTopic is the topic, in each namespace that has webhooks, in which every attempt is
// written down: an Attempt in JSON, whose key is the subscription's name.
const AttemptsTopic = "__webhook_attempts"

// attemptsConfig bounds what is kept of the topic.
var attemptsConfig = map[string]string{"retention.ms": "259200000", "retention.bytes": "268435456"}

// Attempt is one attempt to deliver a message, or another event in an endpoint's life.
type Attempt struct {
	Subscription string      `json:"subscription"`
	Time         time.Time   `json:"time"`
	ID           string      `json:"id,omitempty"`
	Partition    int         `json:"partition"`
	Offset       core.Offset `json:"offset"`
	Attempt      int         `json:"attempt"` // counting from 1; that does not count which the endpoint had put off
	Outcome      Outcome     `json:"outcome"`
	Status       int         `json:"status,omitempty"`
	LatencyMs    int64       `json:"latencyMs"`
	Class        Class       `json:"class,omitempty"`
	Detail       string      `json:"detail,omitempty"`
	Response     string      `json:"response,omitempty"`
	Next         *time.Time  `json:"next,omitempty"` // when it is tried again
}

// Outcome is what followed from an attempt.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered"
	Retry     Outcome = "retry"     // it is tried again, and this time counted
	Throttled Outcome = "throttled" // it is tried again: the endpoint asked for time
	Dead      Outcome = "dead"      // it was tried often enough, or never will succeed
	Disabled  Outcome = "disabled"  // the endpoint is switched off; the message stays
)

// journal writes attempts down, in batches. It is not what deliveries rest on: attempts that
// come faster than they can be written are left out, and counted.
type journal struct {
	router  *router.Router
	logger  *slog.Logger
	dropped prometheus.Counter
	wake    chan struct{}

	mu      sync.Mutex
	waiting map[string][]Attempt // guarded by mu: by namespace
	count   int                  // guarded by mu
}

const (
	journalEvery = 200 * time.Millisecond
	journalBatch = 500
	journalMax   = 20_000 // that wait
)

func (j *journal) add(namespace string, a Attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.count >= journalMax {
		j.dropped.Inc()
		return
	}
	if j.waiting == nil {
		j.waiting = map[string][]Attempt{}
	}
	j.waiting[namespace] = append(j.waiting[namespace], a)
	if j.count++; j.count == 1 {
		select {
		case j.wake <- struct{}{}:
		default:
		}
	}
}

// run writes until ctx ends, and then what is left.
func (j *journal) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			j.flush(last)
			return
		case <-j.wake:
		}
		pause.Reset(journalEvery)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		if ctx.Err() == nil {
			j.flush(ctx)
		}
	}
}

func (j *journal) flush(ctx context.Context) {
	j.mu.Lock()
	all := j.waiting
	j.waiting, j.count = nil, 0
	j.mu.Unlock()
	for namespace, attempts := range all {
		for len(attempts) > 0 {
			n := min(len(attempts), journalBatch)
			if err := j.write(ctx, namespace, attempts[:n]); err != nil {
				j.dropped.Add(float64(len(attempts)))
				j.logger.Warn("attempts to deliver webhooks are not written down", "namespace", namespace, "count", len(attempts), "err", err)
				break
			}
			attempts = attempts[n:]
		}
	}
}

// write appends a batch of attempts, and makes the topic where it is not there.
func (j *journal) write(ctx context.Context, namespace string, attempts []Attempt) error {
	name := core.Name{Namespace: namespace, Name: AttemptsTopic}
	t, ok := j.router.Topic(name)
	if !ok {
		var err error
		t, err = j.router.CreateTopic(ctx, us, router.TopicSpec{Name: name, Partitions: 1, Configs: attemptsConfig, Internal: true})
		if core.KindOf(err) == core.Exists {
			t, ok = j.router.Topic(name)
			if !ok {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	var b core.BatchBuilder
	for i := range attempts {
		text, err := json.Marshal(&attempts[i])
		if err != nil {
			return err
		}
		m := message.Message{Key: []byte(attempts[i].Subscription), Value: text, Time: attempts[i].Time.UnixMilli(), ContentType: "application/json", Priority: -1}
		m.AppendTo(&b)
	}
	data, err := b.Build(nil, core.BatchOptions{Producer: core.Nobody})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	j.router.PublishChecked(us, nil, t.Partitions[0], data, func(r router.PublishResult) { done <- r.Err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Attempts are up to limit of a subscription, the newest first, that are before an offset of
// the topic; 0: all. more is the offset to go on from; 0 when there are no more. Whether somebody may
// see them is the caller's to ask.
func Attempts(r *router.Router, n core.Name, before core.Offset, limit int) (all []Attempt, more core.Offset, err error) {
	t, ok := r.Topic(core.Name{Namespace: n.Namespace, Name: AttemptsTopic})
	if !ok {
		return nil, 0, nil
	}
	q := t.Partitions[0]
	head, err := r.Head(q)
	if err != nil {
		return nil, 0, err
	}
	end := head.Stable
	if before > 0 {
		end = min(end, before)
	}
	for range attemptWindows {
		if end <= head.Start {
			return all, 0, nil
		}
		from := max(end-attemptWindow, head.Start)
		var found []Attempt
		var at []core.Offset
		for next := from; next < end; {
			next, err = r.Browse(us, q, next, end, attemptBytes, func(b router.Browsed) bool {
				var a Attempt
				if string(b.Key) == n.Name && json.Unmarshal(b.Value, &a) == nil {
					found, at = append(found, a), append(at, b.Offset)
				}
				return true
			})
			if err != nil {
				return nil, 0, err
			}
		}
		for i, a := range slices.Backward(found) {
			if all = append(all, a); len(all) == limit {
				if more = at[i]; more <= head.Start {
					more = 0
				}
				return all, more, nil
			}
		}
		end = from
	}
	if end <= head.Start {
		end = 0
	}
	return all, end, nil
}

// How much of the topic is looked at for one page: windows of so many attempts each.
const (
	attemptWindow  = 2000
	attemptWindows = 10
	attemptBytes   = 8 << 20
)
