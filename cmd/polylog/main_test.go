package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// asBroker in the environment makes the test binary the broker's: a process that can be
// killed.
const asBroker = "TEST_AS_POLYLOG_BROKER"

func TestMain(m *testing.M) {
	if os.Getenv(asBroker) != "" {
		main()
	}
	goleak.VerifyTestMain(m,
		// fasthttp's sleepers; see the tests of httpd.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// output collects what a verb prints; verbs print from several goroutines.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// call runs the binary's main with in as standard input.
func call(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e output
	code = run(t.Context(), process{in: strings.NewReader(in), out: &o, err: &e}, args)
	return code, o.String(), e.String()
}

// must is call for what has to work; it returns the output.
func must(t *testing.T, in string, args ...string) string {
	t.Helper()
	code, out, errs := call(t, in, args...)
	if code != exitOK {
		t.Fatalf("polylog %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// served is a broker that runs in this process.
type served struct {
	dir, kafka, http, node, mqtt string
	out, err                     *output
	stop                         context.CancelFunc
	code                         chan int
	ended                        bool
}

// start runs `polylog serve` on free ports until it is ready. It is stopped, and must
// end well, when the test does.
func start(t *testing.T, dir string, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{dir: dir, out: &output{}, err: &output{}, stop: cancel, code: make(chan int, 1)}
	addrs := filepath.Join(t.TempDir(), "addrs")
	args = append([]string{
		"serve", "--data-dir", dir, "--addr-file", addrs, "--segment-size", "1MiB",
		"--kafka-listen", ":0", "--amqp-listen", ":0", "--management-listen", ":0", "--mqtt-listen", ":0", "--mqtt-ws-listen", ":0", "--kafka-rest-listen", ":0", "--nsq-listen", ":0", "--http-listen", "127.0.0.1:0",
	}, args...)
	ready := &firstWrite{output: s.out, seen: make(chan struct{})}
	go func() { s.code <- run(ctx, process{out: ready, err: s.err}, args) }()
	select {
	case <-ready.seen:
	case code := <-s.code:
		cancel()
		t.Fatalf("serve ended with code %d: %s", code, s.err)
	}
	t.Cleanup(func() { s.end(t) })
	text, err := os.ReadFile(addrs)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, addr, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "kafka":
			s.kafka = addr
		case "http":
			s.http = addr
		case "node":
			s.node = addr
		case "mqtt":
			s.mqtt = addr
		}
	}
	return s
}

// firstWrite closes seen at the first write.
type firstWrite struct {
	*output
	once sync.Once
	seen chan struct{}
}

func (w *firstWrite) Write(b []byte) (int, error) {
	defer w.once.Do(func() { close(w.seen) })
	return w.output.Write(b)
}

// left waits for a broker that ends by itself, and gives its exit code.
func (s *served) left() int {
	s.ended = true
	defer s.stop()
	return <-s.code
}

// end stops the broker as a signal does. It may be called twice.
func (s *served) end(t *testing.T) {
	t.Helper()
	if s.ended {
		return
	}
	s.ended = true
	s.stop()
	if code := <-s.code; code != exitOK {
		t.Errorf("serve ended with code %d: %s", code, s.err)
	}
}
