package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"polylog/cmd/polylog/rest"
)

// silence is how long a stream may send nothing: twice as long as a broker does, and a little more.
const silence = 35 * time.Second

// overHTTP prints messages as the HTTP interface shows them: a stream of each partition, or, with --to-end, what is
// there page after page.
func (f *subFlags) overHTTP(ctx context.Context, c *rest.Client, topics []string) error {
	w := &lineWriter{to: f.process.out, json: f.output == "json", left: f.count}
	var parts []*webPartition
	for _, topic := range topics {
		some, err := f.partitions(ctx, c, topic)
		if err != nil {
			return fmt.Errorf("read topic %s: %w", topic, err)
		}
		parts = append(parts, some...)
	}
	all, run := errgroup.WithContext(ctx)
	if f.toEnd {
		all.SetLimit(1) // one after the other
	}
	for _, p := range parts {
		p.lineWriter, p.client = w, c.Clone()
		all.Go(func() error {
			if err := p.read(run, f.toEnd); err != nil {
				return fmt.Errorf("read topic %s: %w", p.topic, err)
			}
			return nil
		})
	}
	err := all.Wait()
	if errors.Is(err, errEnough) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // as it was asked to
	}
	return err
}

// webPartition is a partition that is read over HTTP.
type webPartition struct {
	*lineWriter
	client  *rest.Client
	topic   string
	where   url.Values // what to read next
	timeout time.Duration
	empty   bool // there is nothing to read up to the end
}

// partitions are those of a topic, and where each is read from.
func (f *subFlags) partitions(ctx context.Context, c *rest.Client, topic string) ([]*webPartition, error) {
	var t struct {
		Ranges []struct {
			Partition  int
			Start, End int64
		}
	}
	if err := c.Get(ctx, c.Path("topics", topic), nil, &t); err != nil {
		return nil, err
	}
	var all []*webPartition
	for _, r := range t.Ranges {
		p := &webPartition{topic: topic, timeout: f.timeout, where: url.Values{"partition": {strconv.Itoa(r.Partition)}}}
		offset := r.Start
		if n, err := strconv.ParseInt(f.from, 10, 64); err == nil {
			offset = max(offset, n)
		} else if f.from == "end" {
			offset = r.End
		}
		if _, err := time.Parse(time.RFC3339, f.from); err == nil {
			p.where.Set("from", f.from)
		} else {
			p.where.Set("offset", strconv.FormatInt(offset, 10))
			p.empty = offset >= r.End
		}
		all = append(all, p)
	}
	return all, nil
}

// read prints messages, without end unless toEnd.
func (p *webPartition) read(ctx context.Context, toEnd bool) error {
	if !toEnd {
		return p.follow(ctx)
	}
	if p.empty {
		return nil
	}
	return p.client.Each(ctx, p.client.Path("topics", p.topic, "messages"), p.where, "messages", 0, p.one)
}

// follow reads a stream, and another one from where it was when that is lost, from any server.
func (p *webPartition) follow(ctx context.Context) error {
	for well := time.Now(); ; {
		alive, err := p.stream(ctx)
		if alive {
			well = time.Now()
		}
		var refused *rest.Problem
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errEnough), p.failed():
			return err
		case errors.As(err, &refused) && !refused.Retryable, time.Since(well) > p.timeout:
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(askPause):
		}
	}
}

// stream reads one stream to its end. alive reports that there was one.
func (p *webPartition) stream(ctx context.Context) (alive bool, err error) {
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(p.timeout, func() { cancel(errors.New("the broker is silent")) })
	defer watch.Stop()
	resp, err := p.client.Open(run, rest.Request{Path: p.client.Path("topics", p.topic, "stream"), Query: p.where})
	if err == nil {
		alive = true
		err = rest.Events(&watched{resp.Body, watch}, p.one)
		_ = resp.Body.Close() // it was read
	}
	if ctx.Err() == nil && run.Err() != nil {
		err = context.Cause(run)
	}
	return alive, err
}

// one prints a message. What is read next is behind it.
func (p *webPartition) one(text json.RawMessage) error {
	var m stored
	if err := json.Unmarshal(text, &m); err != nil {
		return p.fail(fmt.Errorf("a message is not as expected: %w", err))
	}
	if err := p.print(p.topic, &m, text); err != nil {
		return err
	}
	p.where.Del("from")
	p.where.Set("offset", strconv.FormatInt(m.Offset+1, 10))
	return nil
}

// watched is the body of a stream. The timer fires when nothing comes.
type watched struct {
	io.Reader
	timer *time.Timer
}

// Read implements io.Reader.
func (w *watched) Read(b []byte) (int, error) {
	w.timer.Reset(silence)
	return w.Reader.Read(b)
}

// lineWriter prints messages of several partitions, a line each.
type lineWriter struct {
	to   io.Writer
	json bool

	mu   sync.Mutex
	left int   // guarded by mu: how many are to come; 0 and less: any number
	err  error // guarded by mu: why nothing more is printed
}

// print prints a message: its value, or, as JSON, its topic and what the interface says of it. The error is errEnough
// when it was the last one.
func (l *lineWriter) print(topic string, m *stored, text json.RawMessage) error {
	var line []byte
	var err error
	if l.json {
		if line, err = json.Marshal(topic); err == nil {
			line = append(append([]byte(`{"topic":`), line...), ',')
			line = append(line, text[1:]...)
		}
	} else {
		line, err = m.bytes()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if err == nil {
		_, err = l.to.Write(append(line, '\n'))
	}
	if l.left--; err == nil && l.left == 0 {
		err = errEnough
	}
	l.err = err
	return err
}

// fail has nothing more be printed.
func (l *lineWriter) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = cmp.Or(l.err, err)
	return l.err
}

// failed reports whether nothing more is printed.
func (l *lineWriter) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}
