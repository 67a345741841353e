package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"polylog/compat/harness"
)

// node is a place for a process: its addresses stay, its process and data come and go.
type node struct {
	id          string
	dir         string
	kafka, peer string
	bin         string
	broker      *harness.Broker // nil while none runs
	joining     []string
	extra       []string
}

// cluster is the nodes by id; only some of them run or are members.
type cluster struct {
	bin   string
	nodes map[string]*node
}

func newCluster(o options) (*cluster, error) {
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, err
	}
	old := bin
	if o.old != "" {
		if old, err = filepath.Abs(o.old); err != nil {
			return nil, err
		}
	}
	c := &cluster{bin: bin, nodes: map[string]*node{}}
	addrs, err := freeAddrs(8)
	if err != nil {
		return nil, err
	}
	for i, id := range []string{"n1", "n2", "n3", "n4"} {
		c.nodes[id] = &node{id: id, dir: filepath.Join(o.dir, id), bin: old, kafka: addrs[2*i], peer: addrs[2*i+1]}
		if id != "n1" {
			c.nodes[id].joining = []string{c.nodes["n1"].peer}
		}
	}
	c.nodes["n4"].joining = []string{c.nodes["n1"].peer, c.nodes["n3"].peer}
	return c, nil
}

// freeAddrs finds addresses that nobody listens on just now.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func (c *cluster) kafkaAddrs() (all []string) {
	for _, id := range []string{"n1", "n2", "n3", "n4"} {
		all = append(all, c.nodes[id].kafka)
	}
	return all
}

func (c *cluster) killAll() {
	for _, n := range c.nodes {
		if n.broker != nil {
			n.broker.Kill()
			n.broker = nil
		}
	}
}

func (n *node) args() []string {
	a := []string{"--node-id", n.id, "--node-listen", n.peer, "--segment-size", "4MiB", "--webhook-allow", "127.0.0.0/8"}
	if len(n.joining) > 0 {
		a = append(a, "--join", strings.Join(n.joining, ","))
	}
	return append(a, n.extra...)
}

// up starts the process and waits until it is ready.
func (n *node) up(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	n.broker, err = harness.Polylog{Bin: n.bin, Dir: n.dir, KafkaAddr: n.kafka, Args: n.args()}.Start(ctx)
	return err
}

// down stops the process with SIGTERM.
func (n *node) down() error {
	b := n.broker
	n.broker = nil
	return b.Stop(30 * time.Second)
}

// kill ends the process with SIGKILL.
func (n *node) kill() {
	n.broker.Kill()
	n.broker = nil
}

// ended waits for a process that ends by itself and says what its last line was.
func (n *node) ended(ctx context.Context) (string, error) {
	select {
	case <-n.broker.Done():
	case <-time.After(30 * time.Second):
		return "", fmt.Errorf("node %s goes on", n.id)
	case <-ctx.Done():
		return "", ctx.Err()
	}
	n.broker = nil
	b, err := os.ReadFile(filepath.Join(n.dir, "output"))
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1], err
}

// wipe removes the data directory.
func (n *node) wipe() error { return os.RemoveAll(filepath.Join(n.dir, "data")) }

// refused starts the process with the data directory, which has to end with exit code 1 and
// one line that contains want.
func (n *node) refused(ctx context.Context, data, want string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	all := append([]string{"serve", "--data-dir", data, "--kafka-listen", "127.0.0.1:0", "--amqp-listen", "off", "--management-listen", "off", "--mqtt-listen", "off", "--mqtt-ws-listen", "off", "--kafka-rest-listen", "off", "--nsq-listen", "off", "--http-listen", "off", "--log-level", "error"}, n.args()...)
	var errs strings.Builder
	cmd := exec.CommandContext(ctx, n.bin, append(all, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // the error shows where it hangs
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
		return fmt.Errorf("start of %s: %s, %q; want exit code 1 and one line with %q", n.id, fmt.Sprint(err), errs.String(), want)
	}
	return nil
}

// polylog runs the command line.
func (c *cluster) polylog(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, c.bin, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("polylog %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// info is what `polylog cluster info -o json` says.
type info struct {
	Leader  string `json:"leader"`
	Members []struct {
		ID        string            `json:"id"`
		Voter     bool              `json:"voter"`
		Endpoints map[string]string `json:"endpoints"`
	} `json:"members"`
}

// info asks any node that runs.
func (c *cluster) info(ctx context.Context) (i info, err error) {
	err = errors.New("no node runs")
	for _, n := range c.nodes {
		if n.broker == nil {
			continue
		}
		var out string
		if out, err = c.polylog(ctx, "cluster", "info", "-n", n.peer, "-o", "json", "--timeout", "3s"); err == nil {
			return i, json.Unmarshal([]byte(out), &i)
		}
	}
	return i, err
}

// settled waits until the cluster has a leader, exactly these voters, and no other members, whose
// clients' addresses everybody knows.
func (c *cluster) settled(ctx context.Context, ids ...string) (info, error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		i, err := c.info(ctx)
		ok := err == nil && i.Leader != "" && len(i.Members) == len(ids)
		for k := range i.Members {
			m := i.Members[k]
			ok = ok && m.ID == ids[k] && m.Voter && m.Endpoints["kafka"] != ""
		}
		if ok {
			return i, nil
		}
		if !harness.Pause(ctx, 100*time.Millisecond) {
			return i, fmt.Errorf("the cluster never had exactly the voters %v: %+v, %w", ids, i, err)
		}
	}
}

// healthy waits until the node, asked for the health of all, finds no problem.
func (c *cluster) healthy(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		_, err := c.polylog(ctx, "cluster", "health", "-n", n.peer)
		if err == nil || !harness.Pause(ctx, 100*time.Millisecond) {
			return err
		}
	}
}
