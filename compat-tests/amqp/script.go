package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"polylog/compat/amqp/clients/proto"
)

// script is what a scenario plays on a driver: each call does an operation, and the first that does
// not go as it must ends the scenario.
type script struct {
	ctx context.Context
	d   *driver
	id  string // makes the names of queues and exchanges unique
}

// failure is what ends a scenario; play returns it.
type failure struct{ err error }

// play runs a scenario.
func play(ctx context.Context, d *driver, id string, scenario func(*script)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	s := &script{ctx: ctx, d: d, id: id}
	scenario(s)
	return nil
}

func (s *script) must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// check ends the scenario unless ok.
func (s *script) check(ok bool, format string, args ...any) {
	if !ok {
		panic(failure{fmt.Errorf(format, args...)})
	}
}

func (s *script) name(what string) string { return s.id + "." + what }

func (s *script) do(r proto.Request) proto.Outcome {
	out, err := s.d.call(s.ctx, r)
	s.must(err)
	return out
}

// refused does what the broker must refuse with the code.
func (s *script) refused(code int, r proto.Request) {
	_, err := s.d.call(s.ctx, r)
	var e *proto.Error
	switch {
	case errors.Is(err, errUnsupported):
		s.must(err)
	case err == nil:
		s.check(false, "%s succeeded, want %d", r.Op, code)
	case !errors.As(err, &e) || e.Code != code:
		s.check(false, "%v, want code %d", err, code)
	}
}

// channel opens a channel, a new one where there was one of the name.
func (s *script) channel(ch string) { s.do(proto.Request{Op: "channel", Ch: ch}) }

func (s *script) confirming(ch string) {
	s.channel(ch)
	s.do(proto.Request{Op: "confirm", Ch: ch})
}

// queue declares a durable queue.
func (s *script) queue(ch, name string, args map[string]any) string {
	q := s.do(proto.Request{Op: "queue", Ch: ch, Name: s.name(name), Durable: true, Args: args}).Name
	s.check(q == s.name(name), "declared %q, got %q", s.name(name), q)
	return q
}

func (s *script) exchange(ch, name, kind string, args map[string]any) string {
	s.do(proto.Request{Op: "exchange", Ch: ch, Name: s.name(name), Type: kind, Durable: true, Args: args})
	return s.name(name)
}

func (s *script) bind(ch, queue, exchange, key string, args map[string]any) {
	s.do(proto.Request{Op: "bind", Ch: ch, Queue: queue, Exchange: exchange, Key: key, Args: args})
}

// publish sends a message on a channel that confirms, and says whether it was taken.
func (s *script) publish(ch, exchange, key, body string, m *proto.Message) bool {
	return s.do(proto.Request{Op: "publish", Ch: ch, Exchange: exchange, Key: key, Body: body, Message: m}).Acked
}

// fill publishes to a queue.
func (s *script) fill(ch, queue string, bodies ...string) {
	for _, b := range bodies {
		s.check(s.publish(ch, "", queue, b, &proto.Message{Persistent: true}), "%s was not confirmed", b)
	}
}

func (s *script) consume(ch, queue, tag string, prefetch int, args map[string]any) {
	s.do(proto.Request{Op: "qos", Ch: ch, Prefetch: prefetch})
	s.do(proto.Request{Op: "consume", Ch: ch, Queue: queue, Tag: tag, Args: args})
}

func (s *script) take(ch string, n int) []proto.Delivery {
	got, err := s.d.take(s.ctx, ch, n)
	s.must(err)
	return got
}

func (s *script) one(ch string) proto.Delivery { return s.take(ch, 1)[0] }

func (s *script) ack(ch string, d proto.Delivery) {
	s.do(proto.Request{Op: "ack", Ch: ch, Number: d.Number})
}

// get waits for one message and leaves it to the caller to settle it.
func (s *script) get(ch, queue string) proto.Delivery {
	var d *proto.Delivery
	s.until("a message in "+queue, func() bool {
		d = s.do(proto.Request{Op: "get", Ch: ch, Queue: queue}).Delivery
		return d != nil
	})
	return *d
}

// drain takes all that is ready in the queue.
func (s *script) drain(ch, queue string) string {
	var got []string
	for {
		out := s.do(proto.Request{Op: "get", Ch: ch, Queue: queue, NoAck: true})
		if out.Delivery == nil {
			return strings.Join(got, " ")
		}
		got = append(got, out.Delivery.Body)
	}
}

func (s *script) ready(ch, queue string) int {
	return s.do(proto.Request{Op: "queue", Ch: ch, Name: queue, Passive: true}).Messages
}

// until asks again and again.
func (s *script) until(what string, cond func() bool) {
	for !cond() {
		select {
		case <-s.ctx.Done():
			s.must(fmt.Errorf("%s: %w", what, s.ctx.Err()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
