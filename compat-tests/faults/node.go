package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"polylog/compat/faults/disk"
	"polylog/compat/harness"
)

const (
	kafkaPort = 9092
	httpPort  = 8080
	nodePort  = 7420

	// amqpAddr is in each node's own namespace, as its clients are: the only user there is yet may come
	// from the same machine only. mqttAddr is as near to its clients.
	amqpAddr = "127.0.0.1:5672"
	mqttAddr = "127.0.0.1:1883"
)

// node is a machine: a host on the network, a disk, and a process that a supervisor starts again
// when it ends by itself, as an init system would.
type node struct {
	host int // on the network, from 1
	id   string
	dir  string
	*volume
	disk    *disk.Disk
	polylog harness.Polylog
	history *history
	wrong   func(format string, args ...any)

	mu      sync.Mutex
	excused bool            // it may end by itself: its disk is broken
	broker  *harness.Broker // nil while it is not ready
	stop    context.CancelFunc
	ended   chan struct{} // closed when the supervisor has
	ready   []time.Duration
}

// restartAfter is how long a supervisor waits before it starts a process again.
const restartAfter = 300 * time.Millisecond

// up starts the process and keeps it running.
func (n *node) up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop, n.ended = cancel, make(chan struct{})
	go n.supervise(ctx, n.ended)
}

func (n *node) supervise(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	for ctx.Err() == nil {
		b, err := n.polylog.Start(ctx)
		if ctx.Err() != nil {
			if err == nil {
				b.Kill()
			}
			return
		}
		if err != nil {
			err = fmt.Errorf("did not get ready: %s", lastLine(n.output()))
		} else {
			n.mu.Lock()
			n.broker = b
			n.ready = append(n.ready, b.Ready)
			n.mu.Unlock()
			n.history.event("ready", "node", n.id, "took", b.Ready.Round(time.Millisecond).String())
			select {
			case <-b.Done():
				err = fmt.Errorf("ended: %w", errors.Join(b.Err(), errors.New(lastLine(n.output()))))
			case <-ctx.Done():
				return
			}
		}
		n.mu.Lock()
		n.broker = nil
		excused := n.excused
		n.mu.Unlock()
		n.history.event("ended by itself", "node", n.id, "excused", excused, "err", err.Error())
		if !excused {
			n.wrong("node %s ended by itself: %v", n.id, err)
		}
		harness.Pause(ctx, restartAfter)
	}
}

// excuse says whether the process may end by itself.
func (n *node) excuse(may bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.excused = may
}

// running is the process, or nil while there is none that is ready.
func (n *node) running() *harness.Broker {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.broker
}

// kill ends the process with SIGKILL, also one that is still starting.
func (n *node) kill() { n.end(func(b *harness.Broker) { b.Kill() }) }

// terminate ends the process with SIGTERM.
func (n *node) terminate() (err error) {
	n.end(func(b *harness.Broker) { err = b.Stop(20 * time.Second) })
	return err
}

func (n *node) end(how func(*harness.Broker)) {
	n.mu.Lock()
	stop, ended := n.stop, n.ended
	n.stop = nil
	n.mu.Unlock()
	if stop == nil {
		return
	}
	stop() // a start that is under way is killed by this
	<-ended
	n.mu.Lock()
	b := n.broker
	n.broker = nil
	n.mu.Unlock()
	if b != nil {
		how(b)
	}
}

// signal reaches a process that is ready, and says whether there is one.
func (n *node) signal(s syscall.Signal) bool {
	b := n.running()
	if b != nil {
		b.Signal(s)
	}
	return b != nil
}

func (n *node) output() string { return filepath.Join(n.dir, "output") }

// status is what a node says of itself.
type status struct {
	leader                         bool
	term, applied, members, voters int64
}

var statusClient = &http.Client{Timeout: 2 * time.Second}

// status asks the node's metrics; an error is no surprise while there are faults.
func (n *node) status() (s status, err error) {
	resp, err := statusClient.Get("http://" + n.polylog.HTTPAddr + "/metrics")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	lines := bufio.NewScanner(resp.Body)
	found := 0
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		v, _ := strconv.ParseFloat(value, 64)
		found++
		switch name {
		case "polylog_raft_leader":
			s.leader = v == 1
		case "polylog_raft_term":
			s.term = int64(v)
		case "polylog_raft_applied_index":
			s.applied = int64(v)
		case "polylog_raft_members":
			s.members = int64(v)
		case "polylog_raft_voters":
			s.voters = int64(v)
		default:
			found--
		}
	}
	if found < 5 && lines.Err() == nil {
		return s, errors.New("not all metrics are there yet")
	}
	return s, lines.Err()
}

// lastLine is the end of a file, for error messages.
func lastLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	s := strings.TrimSpace(string(b))
	return s[strings.LastIndexByte(s, '\n')+1:]
}
