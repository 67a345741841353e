package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// RabbitMQ says how to start RabbitMQ, one node, as Debian packages it.
type RabbitMQ struct {
	Home string // where the server is installed; "" is Debian's /usr/lib/rabbitmq
	Dir  string // holds the data, the configuration and the output
	Conf string // further lines of rabbitmq.conf
}

// rabbitPlugins are those whose exchange types are asked for; they come with the server.
const rabbitPlugins = "[rabbitmq_consistent_hash_exchange,rabbitmq_random_exchange].\n"

// Start runs rabbitmq-server as a process of its own with everything it writes in Dir, and returns
// when it serves clients. Ports are chosen once per Dir, so that a restart is found where clients
// look for it. The started process becomes the Erlang machine, so its usage is the server's. The
// distribution listens on a port of its own and the port mapper is not asked.
func (o RabbitMQ) Start(ctx context.Context) (*Broker, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	home := o.Home
	if home == "" {
		home = "/usr/lib/rabbitmq"
	}
	ports, err := o.ports()
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"enabled_plugins": rabbitPlugins,
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%s\nlog.console = true\nlog.console.level = warning\nlog.file = false\n%s\n",
			ports[0], o.Conf),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(filepath.Join(home, "bin", "rabbitmq-server"))
	cmd.Env = append(
		os.Environ(),
		"HOME="+o.Dir,               // the Erlang cookie
		"RABBITMQ_ALLOW_INPUT=true", // run in the foreground, as this process
		"RABBITMQ_SERVER_START_ARGS=-noinput",
		"RABBITMQ_NODENAME=polylog-"+ports[0]+"@localhost",
		"RABBITMQ_DIST_PORT="+ports[1],
		"ERL_EPMD_PORT="+ports[2],
		"RABBITMQ_MNESIA_BASE="+filepath.Join(o.Dir, "mnesia"),
		"RABBITMQ_LOG_BASE="+filepath.Join(o.Dir, "log"),
		"RABBITMQ_CONFIG_FILE="+filepath.Join(o.Dir, "rabbitmq.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(o.Dir, "enabled_plugins"),
		"RABBITMQ_PID_FILE="+filepath.Join(o.Dir, "pid"),
	)
	begin := time.Now()
	output := filepath.Join(o.Dir, "output")
	p, err := start(cmd, output)
	if err != nil {
		return nil, err
	}
	addr := "127.0.0.1:" + ports[0]
	b := &Broker{Process: p, Name: "rabbitmq", AMQP: addr}
	err = poll(ctx, p, 50*time.Millisecond, func() bool { return accepts(addr) })
	b.Ready = time.Since(begin)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("rabbitmq: %w: %s", err, tail(output))
	}
	return b, nil
}

// ports are those of clients, of Erlang's distribution and of its port mapper, kept in a file.
func (o RabbitMQ) ports() ([]string, error) {
	file := filepath.Join(o.Dir, "ports")
	if text, err := os.ReadFile(file); err == nil {
		return strings.Fields(string(text)), nil
	}
	client, dist, err := freePorts()
	if err != nil {
		return nil, err
	}
	mapper, _, err := freePorts()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%d %d %d", client, dist, mapper)
	return strings.Fields(text), os.WriteFile(file, []byte(text), 0o644)
}
