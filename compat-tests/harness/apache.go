package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Apache says how to start Apache Kafka, one KRaft node, from its jars.
type Apache struct {
	Libs  string // folder of jars
	Dir   string // holds the logs, the properties and the output
	Heap  string // "" is 1G, as its own start script has it
	Props map[string]string
}

// quietLog is what lets log4j2 speak only when something is wrong.
const quietLog = `<Configuration status="ERROR"><Appenders><Console name="C"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="C"/></Root></Loggers></Configuration>
`

// Start formats the storage if it is new, runs kafka.Kafka and returns when it serves clients.
// Ports are chosen once per Dir, so that a restart is found where clients look for it.
func (o Apache) Start(ctx context.Context) (*Broker, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	props := filepath.Join(o.Dir, "server.properties")
	log4j := filepath.Join(o.Dir, "log4j2.xml")
	output := filepath.Join(o.Dir, "output")
	if err := os.WriteFile(log4j, []byte(quietLog), 0o644); err != nil {
		return nil, err
	}
	heap := o.Heap
	if heap == "" {
		heap = "1G"
	}
	// The flags are those of Kafka's own start script.
	jvm := []string{
		"-Xms" + heap, "-Xmx" + heap, "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35", "-Dlog4j2.configurationFile=" + log4j,
		"-cp", filepath.Join(o.Libs, "*"),
	}
	if _, err := os.Stat(props); err != nil {
		if err := o.configure(props); err != nil {
			return nil, err
		}
		format := exec.CommandContext(ctx, "java", "-Dlog4j2.configurationFile="+log4j, "-cp", filepath.Join(o.Libs, "*"),
			"kafka.tools.StorageTool", "format", "-t", "cG9seWxvZy1vcmFjbGUtMQ", "-c", props)
		if out, err := format.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format storage: %w: %s", err, out)
		}
	}
	addr, err := listener(props)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	p, err := start(exec.Command("java", append(jvm, "kafka.Kafka", props)...), output)
	if err != nil {
		return nil, err
	}
	b := &Broker{Process: p, Name: "apache", Addr: addr}
	err = poll(ctx, p, 50*time.Millisecond, func() bool { return accepts(addr) })
	b.Ready = time.Since(begin)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("apache kafka: %w: %s", err, tail(output))
	}
	return b, nil
}

func (o Apache) configure(file string) error {
	client, controller, err := freePorts()
	if err != nil {
		return err
	}
	var s strings.Builder
	// The long session keeps the controller from fencing its only broker, which makes every
	// partition leaderless for a while, when a disk that many share hangs for some seconds.
	fmt.Fprintf(&s, `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=%[3]s
num.network.threads=2
num.io.threads=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=120000
`, client, controller, filepath.Join(o.Dir, "logs"))
	for k, v := range o.Props {
		fmt.Fprintf(&s, "%s=%s\n", k, v)
	}
	return os.WriteFile(file, []byte(s.String()), 0o644)
}

// freePorts finds two ports that nobody listens on just now; Kafka cannot choose by itself.
func freePorts() (a, b int, err error) {
	for _, p := range []*int{&a, &b} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return a, b, nil
}

func listener(props string) (string, error) {
	text, err := os.ReadFile(props)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if addr, ok := strings.CutPrefix(strings.TrimSpace(line), "advertised.listeners=PLAINTEXT://"); ok {
			return addr, nil
		}
	}
	return "", fmt.Errorf("%s names no listener", props)
}
