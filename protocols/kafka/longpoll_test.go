package kafka

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// TestLongPoll holds nisshi#668: a fetch of an empty partition waits, but no longer than
// for the next record.
func TestLongPoll(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 2, nil)
	consumer, producer := f.dial(), f.dial()
	req := fetchOne(fetchMax, topic, 0, 0)
	req.MinBytes, req.MaxWaitMillis = 1, 50

	// Nothing comes: the answer is empty, and not early.
	began := time.Now()
	if got := consumer.fetched(req); len(got.RecordBatches) != 0 || got.HighWatermark != 0 {
		t.Fatalf("%+v, want nothing", got)
	}
	if waited := time.Since(began); waited < 50*time.Millisecond {
		t.Fatalf("answered after %v, want 50ms", waited)
	}

	// A record comes long before the wait ends; one of another partition does not count.
	req.MaxWaitMillis = 3_600_000
	consumer.send(req)
	waitFor(t, func() bool { return f.pending() == 1 })
	producer.produced(9, topic, 1, batch(t, 0, 1, "other"))
	producer.produced(9, topic, 0, batch(t, 0, 1, "mine"))
	resp := answer[*kmsg.FetchResponse](consumer, req)
	if _, vs := values(t, resp.Topics[0].Partitions[0].RecordBatches); !cmp.Equal(vs, []string{"mine"}) {
		t.Fatalf("%q", vs)
	}

	// Much is there, yet less than what is asked for.
	large := f.topic("large", 1, map[string]string{"max.message.bytes": "2000000"})
	half := batch(t, 0, 1, string(make([]byte, 2*busyLook)))
	producer.produced(9, large, 0, half)
	greedy := fetchOne(fetchMax, large, 0, 0)
	greedy.Topics[0].Partitions[0].PartitionMaxBytes = 10 << 20
	greedy.MinBytes, greedy.MaxWaitMillis = int32(2*len(half)), 3_600_000
	consumer.send(greedy)
	waitFor(t, func() bool { return f.pending() == 1 })
	producer.produced(9, large, 0, half)
	if resp := answer[*kmsg.FetchResponse](consumer, greedy); len(resp.Topics[0].Partitions[0].RecordBatches) != 2*len(half) {
		t.Fatalf("%d bytes", len(resp.Topics[0].Partitions[0].RecordBatches))
	}

	// min_bytes counts over all partitions of the request.
	one := len(batch(t, 0, 1, "xxxx"))
	req.Topics[0].Partitions[0].FetchOffset = 1
	p := req.Topics[0].Partitions[0]
	p.Partition = 1
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	req.MinBytes = int32(2 * one)
	consumer.send(req)
	waitFor(t, func() bool { return f.pending() == 1 })
	producer.produced(9, topic, 0, batch(t, 0, 1, "xxxx"))
	producer.produced(9, topic, 1, batch(t, 0, 1, "yyyy"))
	resp = answer[*kmsg.FetchResponse](consumer, req)
	for i, want := range []string{"xxxx", "yyyy"} {
		if _, vs := values(t, resp.Topics[0].Partitions[i].RecordBatches); !cmp.Equal(vs, []string{want}) {
			t.Fatalf("partition %d: %q", i, vs)
		}
	}
}

// TestLongPollEnds covers what else ends a wait: an error, the client, the server.
func TestLongPollEnds(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	req := fetchOne(fetchMax, topic, 0, 0)
	req.MinBytes, req.MaxWaitMillis = 1, 3_600_000

	gone := f.dial()
	gone.send(req)
	waitFor(t, func() bool { return f.pending() == 1 })
	_ = gone.nc.Close()
	waitFor(t, func() bool { return f.conns() == 0 })

	c := f.dial()
	unknown := fetchOne(12, topic, 7, 0)
	unknown.MinBytes, unknown.MaxWaitMillis = 1, 3_600_000
	if got := c.fetched(unknown); got.ErrorCode != codeUnknownTopicOrPartition {
		t.Fatalf("code %d", got.ErrorCode)
	}

	doomed := f.topic("doomed", 1, nil)
	wait := fetchOne(fetchMax, doomed, 0, 0)
	wait.MinBytes, wait.MaxWaitMillis = 1, 3_600_000
	c.send(wait)
	waitFor(t, func() bool { return f.pending() == 1 })
	if err := f.router.DeleteTopic(t.Context(), router.Principal{}, doomed.Name); err != nil {
		t.Fatal(err)
	}
	if got := answer[*kmsg.FetchResponse](c, wait); got.Topics[0].Partitions[0].ErrorCode != codeUnknownTopicID {
		t.Fatalf("code %d for a topic that was deleted", got.Topics[0].Partitions[0].ErrorCode)
	}

	c.send(req)
	waitFor(t, func() bool { return f.pending() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := f.server.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if resp := answer[*kmsg.FetchResponse](c, req); resp.ErrorCode != codeNone {
		t.Fatalf("code %d from a server that stops", resp.ErrorCode)
	}
	c.closed()
}

// TestLongPollParks holds nothing of the memory for requests while a fetch waits, and
// shortens the wait where too many do.
func TestLongPollParks(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	req := fetchOne(fetchMax, topic, 0, 0)
	req.MinBytes, req.MaxWaitMillis = 1, math.MaxInt32
	c := f.dial()
	c.send(req)
	waitFor(t, func() bool { return !f.server.parkedBytes.idle() })
	waitFor(t, f.server.smallRequestBytes.idle)

	rest := f.server.parkedBytes.hold(f.server.parkedBytes.size - partBytes)
	if !rest.tryTake() {
		t.Fatalf("more than %d bytes are parked", partBytes)
	}
	defer rest.release()
	if got := f.dial().fetched(req); got.ErrorCode != codeNone || len(got.RecordBatches) != 0 {
		t.Fatalf("%+v", got)
	}
}

// pending is the number of unanswered requests.
func (f *fixture) pending() (n int) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	for c := range f.server.conns {
		c.mu.Lock()
		for _, cl := range c.pending {
			if !cl.done {
				n++
			}
		}
		c.mu.Unlock()
	}
	return n
}

func (f *fixture) conns() int {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	return len(f.server.conns)
}

// waitFor polls until cond holds.
func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited two minutes in vain")
		}
	}
}
