package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Server says how to start a server of HTTP that is told its addresses.
type Server struct {
	Name string
	Dir  string // holds the data and the output
	// Command listens on one address for HTTP, and on another one for what else it speaks.
	Command func(http, other string) *exec.Cmd
}

// Start runs the server and returns when it accepts connections.
func (o Server) Start(ctx context.Context) (*Broker, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	port, other, err := freePorts()
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	begin := time.Now()
	output := filepath.Join(o.Dir, "output")
	p, err := start(o.Command(addr, fmt.Sprintf("127.0.0.1:%d", other)), output)
	if err != nil {
		return nil, err
	}
	b := &Broker{Process: p, Name: o.Name, HTTP: addr, NSQ: addr}
	err = poll(ctx, p, 5*time.Millisecond, func() bool { return accepts(addr) })
	b.Ready = time.Since(begin)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w: %s", o.Name, err, tail(output))
	}
	return b, nil
}
