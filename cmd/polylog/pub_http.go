package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"

	"polylog/cmd/polylog/rest"
)

// outgoing is a message as the HTTP interface takes it.
type outgoing struct {
	Key         *string  `json:"key,omitempty"`
	KeyBase64   []byte   `json:"keyBase64,omitempty"`
	Value       *string  `json:"value,omitempty"`
	ValueBase64 []byte   `json:"valueBase64,omitempty"`
	Headers     []header `json:"headers,omitempty"`
	Partition   *int32   `json:"partition,omitempty"`
}

// overHTTP publishes by the HTTP interface: one request after the other, each with what has come while the one before
// it was under way.
func (f *pubFlags) overHTTP(ctx context.Context, c *rest.Client, topic string, messages []string, keyed bool) error {
	records, err := f.headerList()
	if err != nil {
		return err
	}
	headers := headersOf(records)
	all, ctx := errgroup.WithContext(ctx)
	queue := make(chan []byte, batchMessages)
	all.Go(func() error { return publishAll(ctx, c, topic, queue) })
	err = eachMessage(messages, f.process.in, func(line string) error {
		m := outgoing{Headers: headers}
		key, value := f.split(line, keyed)
		m.Key, m.KeyBase64 = textOrBytes(key)
		m.Value, m.ValueBase64 = textOrBytes(value)
		if f.partition >= 0 {
			m.Partition = &f.partition
		}
		text, err := json.Marshal(&m)
		if err != nil {
			return err
		}
		select {
		case queue <- text:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(queue)
	if failed := all.Wait(); failed != nil {
		err = failed // the other one is only that it was noticed
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// publishAll publishes what is in queue, until it is closed or something is refused.
func publishAll(ctx context.Context, c *rest.Client, topic string, queue <-chan []byte) error {
	run, done := rand.Text(), 0
	next, more := <-queue
	for more {
		b := &batch{}
		b.add(next)
		next, more = b.fill(queue)
		results, err := b.publish(ctx, c, topic, "pub-"+run+"-"+strconv.Itoa(done))
		if err != nil {
			return err
		}
		for i, one := range results {
			if one.Status != http.StatusOK {
				return fmt.Errorf("message %d is refused: %s", done+i+1, one.Detail)
			}
		}
		done += len(b.at)
		if more && next == nil {
			next, more = <-queue
		}
	}
	return nil
}

// fill adds what is in queue now. next is a message that has no room; more is false when the queue is closed.
func (b *batch) fill(queue <-chan []byte) (next []byte, more bool) {
	for {
		select {
		case m, more := <-queue:
			if !more || !b.add(m) {
				return m, more
			}
		default:
			return nil, true
		}
	}
}
