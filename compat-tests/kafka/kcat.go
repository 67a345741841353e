package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"polylog/compat/kafka/clients/proto"
)

// kcat has no driver program: it is one process a thing done.
type kcat struct {
	addr string
	work string
	log  io.Writer
}

func newKcat(o options, addr string) (tool, error) {
	f, err := os.Create(filepath.Join(o.work, "kcat.out"))
	return kcat{addr, o.work, f}, err
}

func (k kcat) version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "kcat", "-V").CombinedOutput()
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`Version (\S+) .*librdkafka ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		return "unknown", nil
	}
	return string(m[1]) + "/librdkafka-" + string(m[2]), nil
}

func (k kcat) run(ctx context.Context, scenario, id string, r *reference) error {
	topic := id + "-" + strings.ReplaceAll(scenario, " ", "-")
	switch scenario {
	case "none", "gzip", "snappy", "lz4", "zstd":
		return k.codec(ctx, r, topic, scenario)
	case "idempotent":
		if err := r.topic(ctx, topic, 1); err != nil {
			return err
		}
		if err := k.produce(ctx, topic, 0, 1000, 1, "-X", "enable.idempotence=true"); err != nil {
			return err
		}
		return r.expect(ctx, topic, 1, 1000, "none", 0)
	case "group":
		return k.group(ctx, r, topic)
	case "seek offset":
		if err := r.fill(ctx, topic, 100); err != nil {
			return err
		}
		return k.consume(ctx, topic, "37", 37, 20)
	case "seek time":
		if err := r.fillTimed(ctx, topic); err != nil {
			return err
		}
		return k.consume(ctx, topic, "s@"+proto.Itoa(baseTime+60_001), 61, 20)
	}
	return errUnsupported // kcat has no administration
}

func (k kcat) kcat(ctx context.Context, in io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", k.addr}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	err := cmd.Run()
	fmt.Fprintf(k.log, "%v: %v\n%s%s", cmd.Args, err, out.String(), errs.String())
	if err != nil {
		return "", fmt.Errorf("%v: %w: %s", cmd.Args, err, errs.String())
	}
	return out.String(), nil
}

// produce sends records part, part+step, … to one partition.
func (k kcat) produce(ctx context.Context, topic string, part, n, step int64, args ...string) error {
	var in bytes.Buffer
	for i := part; i < part+n*step; i += step {
		fmt.Fprintf(&in, "%s:%s\n", proto.Key(i), proto.Value(i))
	}
	_, err := k.kcat(ctx, &in, append([]string{"-P", "-t", topic, "-p", proto.Itoa(part), "-K:", "-X", "acks=all"}, args...)...)
	return err
}

func (k kcat) codec(ctx context.Context, r *reference, topic, codec string) error {
	if err := r.topic(ctx, topic, 3); err != nil {
		return err
	}
	for part := range int64(3) {
		if err := k.produce(ctx, topic, part, 100, 3, "-z", codec); err != nil {
			return err
		}
	}
	if err := r.expect(ctx, topic, 3, 300, codec, 0); err != nil {
		return err
	}
	out, err := k.kcat(ctx, nil, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-f", `%o:%s\n`)
	if err != nil {
		return err
	}
	return sequence(out, 0, 1, 3, 100)
}

func (k kcat) consume(ctx context.Context, topic, at string, first, n int64) error {
	out, err := k.kcat(ctx, nil, "-C", "-t", topic, "-p", "0", "-o", at, "-c", proto.Itoa(n), "-q", "-f", `%o:%s\n`)
	if err != nil {
		return err
	}
	return sequence(out, first, first, 1, n)
}

// sequence checks lines offset:value.
func sequence(out string, offset, value, step, n int64) error {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if int64(len(lines)) != n {
		return fmt.Errorf("%d records, want %d", len(lines), n)
	}
	for i, l := range lines {
		if want := fmt.Sprintf("%d:v%d", offset+int64(i), value+step*int64(i)); strings.TrimRight(l, ".") != want {
			return fmt.Errorf("record %q, want %s", l, want)
		}
	}
	return nil
}

// group runs two balanced consumers and ends one. Records arrive only while nobody goes: kcat
// drops the record that it holds when it is interrupted, and commits it.
func (k kcat) group(ctx context.Context, r *reference, topic string) error {
	if err := r.topic(ctx, topic, groupParts); err != nil {
		return err
	}
	one, err := k.member(ctx, topic)
	if err != nil {
		return err
	}
	defer one.end()
	if err := one.waitFor(ctx, regexp.MustCompile(`assigned: .*\[5\]`)); err != nil {
		return err
	}
	if err := k.shown(ctx, r, topic, 0, one); err != nil {
		return err
	}
	two, err := k.member(ctx, topic)
	if err != nil {
		return err
	}
	defer two.end()
	if err := two.waitFor(ctx, regexp.MustCompile(`assigned: .*\[\d\]`)); err != nil {
		return err
	}
	if err := k.shown(ctx, r, topic, 60, one, two); err != nil {
		return err
	}
	if err := one.end(); err != nil {
		return err
	}
	if err := two.waitFor(ctx, regexp.MustCompile(`assigned: .*\[0\].*\[5\]`)); err != nil {
		return err
	}
	if err := k.shown(ctx, r, topic, 120, one, two); err != nil {
		return err
	}
	if err := two.end(); err != nil {
		return err
	}
	return r.drained(ctx, topic, topic)
}

var valueLine = regexp.MustCompile(`(?m)^v(\d+)\.`)

// shown produces records from..from+59 and waits until the members have printed all so far.
func (k kcat) shown(ctx context.Context, r *reference, topic string, from int64, ms ...*kcatMember) error {
	if err := r.produce(ctx, topic, groupParts, from, 60); err != nil {
		return err
	}
	for {
		seen := map[string]bool{}
		for _, m := range ms {
			for _, v := range valueLine.FindAllStringSubmatch(text(m.out), -1) {
				seen[v[1]] = true
			}
		}
		if int64(len(seen)) == from+60 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d records were shown", len(seen), from+60)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kcatMember is a running `kcat -G`.
type kcatMember struct {
	cmd  *exec.Cmd
	out  string // file of what it consumed
	say  string // file of what it tells of the group
	done chan error
	err  error
	over bool
}

func (k kcat) member(ctx context.Context, topic string) (*kcatMember, error) {
	out, err := os.CreateTemp(k.work, "kcat-out-")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	say, err := os.CreateTemp(k.work, "kcat-say-")
	if err != nil {
		return nil, err
	}
	defer say.Close()
	m := &kcatMember{out: out.Name(), say: say.Name(), done: make(chan error, 1)}
	m.cmd = exec.CommandContext(ctx, "kcat", "-b", k.addr, "-u", "-f", `%s\n`, "-X", "auto.offset.reset=earliest",
		"-X", "heartbeat.interval.ms=300", "-X", "session.timeout.ms="+proto.Itoa(proto.Session.Milliseconds()), "-G", topic, topic)
	m.cmd.Stdout, m.cmd.Stderr = out, say
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { m.done <- m.cmd.Wait() }()
	return m, nil
}

func text(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (m *kcatMember) waitFor(ctx context.Context, what *regexp.Regexp) error {
	for {
		if slices.ContainsFunc(strings.Split(text(m.say), "\n"), what.MatchString) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kcat -G did not print %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// end interrupts the member, which commits and leaves; a second call is nothing.
func (m *kcatMember) end() error {
	if !m.over {
		m.over = true
		_ = m.cmd.Process.Signal(os.Interrupt) // it may have ended
		m.err = <-m.done
		var exit *exec.ExitError
		if errors.As(m.err, &exit) && exit.ExitCode() == 1 {
			m.err = nil // kcat says 1 when it was interrupted
		}
	}
	return m.err
}
