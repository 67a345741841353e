package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kafka's own performance tools, each in a JVM of its own. They tell their rate themselves: the start
// of the JVM is not in it.

func (b *bench) java(ctx context.Context, main string, args ...string) (string, error) {
	all := append([]string{
		"-Xmx512m", "-XX:+UseG1GC", "-Dlog4j2.configurationFile=" + filepath.Join(b.work, "log4j2.xml"),
		"-cp", filepath.Join(b.libs, "*"), main,
	}, args...)
	out, err := exec.CommandContext(ctx, "java", all...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", main, err, out)
	}
	return string(out), nil
}

var producerLine = regexp.MustCompile(`(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, ([\d.]+) ms max latency, (\d+) ms 50th`)

func (b *bench) officialProduce(ctx context.Context, addr, topic string, records int64) (result, error) {
	out, err := b.java(ctx, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic,
		"--num-records", strconv.FormatInt(records, 10), "--record-size", "1024", "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+addr, "acks=all", "batch.size=1000000", "linger.ms=5", "buffer.memory=134217728")
	if err != nil {
		return result{}, err
	}
	m := producerLine.FindAllStringSubmatch(out, -1)
	if m == nil {
		return result{}, fmt.Errorf("ProducerPerformance printed %q", out)
	}
	last := m[len(m)-1]
	rate, err := strconv.ParseFloat(last[2], 64)
	if err != nil {
		return result{}, err
	}
	return result{records: records, bytes: records * 1024, took: time.Duration(float64(records) / rate * float64(time.Second))}, nil
}

// officialConsume reads the topic from its start. The time is the tool's own fetch time: without what
// joining the group takes, which is a setting of the broker.
func (b *bench) officialConsume(ctx context.Context, addr, topic string, records int64) (result, error) {
	out, err := b.java(ctx, "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", addr, "--topic", topic,
		"--num-records", strconv.FormatInt(records, 10), "--fetch-size", "4194304", "--timeout", "60000")
	if err != nil {
		return result{}, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	f := strings.Split(lines[len(lines)-1], ",")
	// start, end, data MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s, fetch records/s
	if len(f) < 10 {
		return result{}, fmt.Errorf("ConsumerPerformance printed %q", out)
	}
	n, err1 := strconv.ParseInt(strings.TrimSpace(f[4]), 10, 64)
	ms, err2 := strconv.ParseInt(strings.TrimSpace(f[7]), 10, 64)
	if err1 != nil || err2 != nil || ms <= 0 {
		return result{}, fmt.Errorf("ConsumerPerformance printed %q", out)
	}
	return result{records: n, bytes: n * 1024, took: time.Duration(ms) * time.Millisecond}, nil
}
