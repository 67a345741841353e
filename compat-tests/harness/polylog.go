package harness

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Broker is a running broker. It has the addresses of the protocols that it speaks.
type Broker struct {
	*Process
	Name  string        // "polylog", "apache", "rabbitmq", "mosquitto" or a Server's
	Addr  string        // host:port for Kafka clients
	AMQP  string        // host:port for AMQP clients
	MQTT  string        // host:port for MQTT clients
	HTTP  string        // host:port of health and metrics; Apache Kafka has none
	NSQ   string        // host:port of nsqd's HTTP interface
	Ready time.Duration // from the start of the process to the first accepted connection
}

// Polylog says how to start Polylog's binary.
type Polylog struct {
	Bin       string
	Dir       string                         // holds the data directory, the address file and the output
	Data      string                         // the data directory, where it is not in Dir
	KafkaAddr string                         // "" is a port that the system chooses
	AMQPAddr  string                         // the same
	MQTTAddr  string                         // the same
	HTTPAddr  string                         // the same
	Flush     string                         // "" is the default
	Args      []string                       // further flags
	Env       []string                       // further environment
	In        func(start func() error) error // runs start where the process is to live; nil is here
	Under     []string                       // a command that becomes the one that is appended to it; empty: none
}

// At is o with the addresses of a broker that it has started.
func (o Polylog) At(b *Broker) Polylog {
	o.KafkaAddr, o.AMQPAddr, o.MQTTAddr, o.HTTPAddr = b.Addr, b.AMQP, b.MQTT, b.HTTP
	return o
}

// Start runs `polylog serve` and returns when it says that its listeners accept connections.
func (o Polylog) Start(ctx context.Context) (*Broker, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	addrs := filepath.Join(o.Dir, "addresses")
	if err := os.Remove(addrs); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	data := cmp.Or(o.Data, filepath.Join(o.Dir, "data"))
	args := []string{
		"serve", "--data-dir", data, "--addr-file", addrs,
		"--mqtt-listen", cmp.Or(o.MQTTAddr, "127.0.0.1:0"), "--mqtt-ws-listen", "127.0.0.1:0", "--kafka-rest-listen", "127.0.0.1:0", "--nsq-listen", "127.0.0.1:0",
		"--kafka-listen", cmp.Or(o.KafkaAddr, "127.0.0.1:0"), "--http-listen", cmp.Or(o.HTTPAddr, "127.0.0.1:0"),
		"--amqp-listen", cmp.Or(o.AMQPAddr, "127.0.0.1:0"), "--management-listen", "127.0.0.1:0",
	}
	if o.Flush != "" {
		args = append(args, "--flush", o.Flush)
	}
	begin := time.Now()
	command := slices.Concat(o.Under, []string{o.Bin}, args, o.Args)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), o.Env...)
	in := o.In
	if in == nil {
		in = func(start func() error) error { return start() }
	}
	var p *Process
	err := in(func() (err error) {
		p, err = start(cmd, filepath.Join(o.Dir, "output"))
		return err
	})
	if err != nil {
		return nil, err
	}
	b := &Broker{Process: p, Name: "polylog"}
	err = poll(ctx, p, time.Millisecond, func() bool {
		text, err := os.ReadFile(addrs)
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(text)) {
			name, addr, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch name {
			case "kafka":
				b.Addr = addr
			case "amqp":
				b.AMQP = addr
			case "mqtt":
				b.MQTT = addr
			case "http":
				b.HTTP = addr
			case "nsq":
				b.NSQ = addr
			}
		}
		return b.Addr != "" && accepts(b.Addr)
	})
	b.Ready = time.Since(begin)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w: %s", o.Bin, err, tail(filepath.Join(o.Dir, "output")))
	}
	return b, nil
}

// poll calls ready until it is true, the process has ended or ctx has.
func poll(ctx context.Context, p *Process, every time.Duration, ready func() bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.Done():
			return fmt.Errorf("ended before it was ready: %w", p.err)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

func accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// tail is the end of a file, for error messages.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}
