package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Mosquitto says how to start Mosquitto, as Debian packages it.
type Mosquitto struct {
	Dir  string // holds the data, the configuration and the output
	Conf string // further lines of mosquitto.conf
}

// Start runs mosquitto with persistence on and returns when it accepts connections.
func (o Mosquitto) Start(ctx context.Context) (*Broker, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	port, _, err := freePorts()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(o.Dir, "mosquitto.conf")
	text := fmt.Sprintf("listener %d 127.0.0.1\nallow_anonymous true\nuser root\npersistence true\npersistence_location %s/\n%s\n", port, o.Dir, o.Conf)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	begin := time.Now()
	output := filepath.Join(o.Dir, "output")
	p, err := start(exec.Command("/usr/sbin/mosquitto", "-c", conf), output)
	if err != nil {
		return nil, err
	}
	b := &Broker{Process: p, Name: "mosquitto", MQTT: fmt.Sprintf("127.0.0.1:%d", port)}
	err = poll(ctx, p, 5*time.Millisecond, func() bool { return accepts(b.MQTT) })
	b.Ready = time.Since(begin)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("mosquitto: %w: %s", err, tail(output))
	}
	return b, nil
}
