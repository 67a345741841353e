package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"polylog/cmd/polylog/rest"
)

// reading is a run of `bench consume`.
type reading struct {
	*benchFlags
	live            bool
	most            int64 // messages at most
	messages, bytes int64
	begin           time.Time // of the first message
	h               histogram
	bar             *bar
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

// one counts a message.
func (r *reading) one(bytes int, at time.Time) error {
	now := time.Now()
	if r.messages == 0 {
		r.begin = now
	}
	r.messages++
	r.bytes += int64(bytes)
	if r.live {
		r.h.add(now.Sub(at))
	}
	r.bar.at(r.messages)
	if r.messages >= r.most {
		return errEnough
	}
	return nil
}

// runConsume reads up to --messages that are there, or that come within --duration.
func (f *benchFlags) runConsume(ctx context.Context, c *rest.Client, topic string, live bool) error {
	r := &reading{benchFlags: f, live: live, most: f.messages}
	if !live {
		there, err := size(ctx, c, topic)
		if err != nil {
			return err
		}
		if r.most == 0 || there < r.most {
			r.most = there
		}
	} else if r.most == 0 {
		r.most = 1<<63 - 1
	}
	r.bar = newBar(f.process, "messages", min(r.most, 1<<40))
	if live && f.messages == 0 {
		r.bar.total = 0
	}
	run, cancel := ctx, context.CancelFunc(func() {})
	if f.messages == 0 {
		run, cancel = context.WithTimeout(ctx, f.duration)
	}
	defer cancel()
	var err error
	r.begin = time.Now()
	if r.most > 0 {
		if f.protocol == "http" {
			err = r.http(run, c, topic)
		} else {
			err = r.kafka(run, topic)
		}
	}
	took := time.Since(r.begin)
	r.bar.end()
	if err != nil && !errors.Is(err, errEnough) && run.Err() == nil {
		return err
	}
	h := &r.h
	if !live {
		h = nil
	}
	return f.report(r.messages, r.bytes, took, h)
}

// http reads a stream of server-sent events.
func (r *reading) http(ctx context.Context, c *rest.Client, topic string) error {
	from := "start"
	if r.live {
		from = "latest"
	}
	resp, err := c.Open(ctx, rest.Request{Path: c.Path("topics", topic, "stream"), Query: url.Values{"from": {from}}})
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it is over
	return rest.Events(resp.Body, func(data json.RawMessage) error {
		var m struct {
			Value     string
			Timestamp time.Time
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		return r.one(len(m.Value), m.Timestamp)
	})
}

// kafka fetches, without a group.
func (r *reading) kafka(ctx context.Context, topic string) error {
	b := brokerFlags{process: r.process, as: r.as, addr: r.broker, timeout: r.timeout}
	from := kgo.NewOffset().AtStart()
	if r.live {
		from = kgo.NewOffset().AtEnd()
	}
	ctx, k, err := b.loggedIn(ctx, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(from))
	if err != nil {
		return err
	}
	defer k.Close()
	if there, err := kadm.NewClient(k).ListTopics(ctx, topic); err == nil && there[topic].Err != nil {
		return refused("topic", topic, there[topic].Err, "")
	}
	for {
		fetches := k.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return cmp.Or(loggedOut(ctx), plain(err))
		}
		for it := fetches.RecordIter(); !it.Done(); {
			m := it.Next()
			if err := r.one(len(m.Value), m.Timestamp); err != nil {
				return err
			}
		}
	}
}
