package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
)

// killable is a broker in a process of its own.
type killable struct {
	cmd   *exec.Cmd
	kafka string
}

// startKillable starts a broker and waits until it is ready. It is killed at the latest
// when the test ends.
func startKillable(t *testing.T, dir string) *killable {
	t.Helper()
	addrs := filepath.Join(t.TempDir(), "addrs")
	cmd := exec.Command(os.Args[0], "serve", "--data-dir", dir, "--addr-file", addrs,
		"--kafka-listen=127.0.0.1:0", "--amqp-listen=off", "--management-listen=off", "--mqtt-listen=off", "--mqtt-ws-listen=off", "--kafka-rest-listen=off", "--nsq-listen=off", "--http-listen=off", "--log-level=error",
		"--segment-size=1MiB", "--broker-config=group.initial.rebalance.delay.ms=0")
	cmd.Env = append(os.Environ(), asBroker+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k := &killable{cmd: cmd}
	t.Cleanup(k.kill)
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil { // printed when it is ready
		t.Fatalf("the broker ended before it was ready: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	text, err := os.ReadFile(addrs)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if addr, ok := strings.CutPrefix(strings.TrimSpace(line), "kafka="); ok {
			k.kafka = addr
		}
	}
	return k
}

// kill ends the broker with SIGKILL. It may be called twice.
func (k *killable) kill() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

// kafkaClient is a client that the test's end closes.
func kafkaClient(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// produceAs sends one record with a producer's sequence to words, partition 0.
func produceAs(t *testing.T, cl *kgo.Client, p core.Producer) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	var b core.BatchBuilder
	b.Add(time.Now().UnixMilli(), nil, []byte("v"))
	batch, err := b.Build(nil, core.BatchOptions{Producer: p})
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "words", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	// Version 13 names topics by id.
	meta, err := kadm.NewClient(cl).Metadata(t.Context(), "words")
	if err != nil {
		t.Fatal(err)
	}
	req.Topics[0].TopicID = meta.Topics["words"].ID
	resp, err := cl.Broker(1).Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// endOf is the end of words, partition 0, and a group's distance from it.
func endOf(t *testing.T, cl *kgo.Client, group string) (end, lag int64) {
	t.Helper()
	adm := kadm.NewClient(cl)
	ends, err := adm.ListEndOffsets(t.Context(), "words")
	if err != nil {
		t.Fatal(err)
	}
	lags, err := adm.Lag(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	return ends["words"][0].Offset, lags[group].Lag.Total()
}

// TestKilledLeaders kills a broker that leads, again and again. What raft writes when it
// leads anew takes no offset (redpanda#25918): the end is the number of records, and a
// group that has read them has no lag. A batch that is sent again, as its answer may have
// got lost, keeps its offset and adds nothing (redpanda#3039).
func TestKilledLeaders(t *testing.T) {
	dir := t.TempDir()
	k := startKillable(t, dir)
	must(t, "", "topic", "create", "words", "-b", k.kafka)
	who := core.Producer{ID: 4711}
	const leaders, each = 4, 10
	for leader := range leaders {
		if leader > 0 {
			k.kill()
			k = startKillable(t, dir)
			cl := kafkaClient(t, k.kafka)
			for back := 1; back <= 5; back++ {
				again := who
				again.Sequence -= int32(back)
				if p := produceAs(t, cl, again); p.ErrorCode != 0 || p.BaseOffset != int64(again.Sequence) {
					t.Fatalf("sequence %d sent again: code %d, offset %d", again.Sequence, p.ErrorCode, p.BaseOffset)
				}
			}
		}
		cl := kafkaClient(t, k.kafka)
		for range each {
			if p := produceAs(t, cl, who); p.ErrorCode != 0 || p.BaseOffset != int64(who.Sequence) {
				t.Fatalf("sequence %d: code %d, offset %d", who.Sequence, p.ErrorCode, p.BaseOffset)
			}
			who.Sequence++
		}
		must(t, "", "sub", "words", "-b", k.kafka, "-g", "readers", "--from", "start", "-n", fmt.Sprint(each))
		if end, lag := endOf(t, cl, "readers"); end != int64(who.Sequence) || lag != 0 {
			t.Fatalf("after %d leaders: end %d, lag %d; want %d and 0", leader+1, end, lag, who.Sequence)
		}
	}
	got := must(t, "", "sub", "words", "-b", k.kafka, "--to-end")
	if n := strings.Count(got, "\n"); n != leaders*each {
		t.Errorf("%d records, want %d", n, leaders*each)
	}
}
