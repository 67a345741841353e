package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"polylog/compat/kafka/clients/proto"
)

// errUnsupported is the outcome of a scenario that a client has no means for.
var errUnsupported = proto.ErrUnsupported

// driver is a running client program; see package proto for the conversation.
type driver struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[string]chan answer
	members map[string]*member
	changed chan struct{} // closed and replaced whenever a member's state changes
	ended   error         // set when the program has ended
}

type answer struct {
	args proto.Args
	err  error
}

// member is what a driver has told of one group member.
type member struct {
	parts   []string
	history []string        // assignments in order, as words
	seen    map[string]bool // record values
}

func startDriver(bootstrap string, log io.Writer, command ...string) (*driver, error) {
	cmd := exec.Command(command[0], append(command[1:], bootstrap)...)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := &driver{
		cmd: cmd, in: in,
		waiting: map[string]chan answer{}, members: map[string]*member{}, changed: make(chan struct{}),
	}
	go d.read(io.TeeReader(out, log))
	return d, nil
}

func (d *driver) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) >= 2 {
			d.hear(words)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = fmt.Errorf("the client program ended: %w", errors.Join(lines.Err(), d.cmd.Wait()))
	for _, c := range d.waiting {
		c <- answer{err: d.ended}
	}
	clear(d.waiting)
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *driver) hear(words []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if words[0] == "!" {
		a := proto.Parse(words[2:])
		m := d.members[a["member"]]
		if m == nil {
			return
		}
		switch words[1] {
		case "assigned":
			m.parts = nil
			if a["parts"] != "" {
				m.parts = strings.Split(a["parts"], ",")
			}
			m.history = append(m.history, a["parts"])
		case "rec":
			m.seen[a["value"]] = true
		}
		close(d.changed)
		d.changed = make(chan struct{})
		return
	}
	c := d.waiting[words[0]]
	if c == nil {
		return // not a line of ours: a library that prints
	}
	delete(d.waiting, words[0])
	switch words[1] {
	case "ok":
		c <- answer{args: proto.Parse(words[2:])}
	case "unsupported":
		c <- answer{err: errUnsupported}
	default:
		c <- answer{err: errors.New(strings.Join(words[2:], " "))}
	}
}

// call runs one operation and waits for its outcome.
func (d *driver) call(ctx context.Context, op string, args proto.Args) (proto.Args, error) {
	d.mu.Lock()
	if d.ended != nil {
		d.mu.Unlock()
		return nil, d.ended
	}
	d.next++
	id := strconv.Itoa(d.next)
	c := make(chan answer, 1)
	d.waiting[id] = c
	if op == "join" {
		d.members[args["member"]] = &member{seen: map[string]bool{}}
	}
	_, err := fmt.Fprintf(d.in, "%s %s%s\n", id, op, args)
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case a := <-c:
		if a.err != nil && !errors.Is(a.err, errUnsupported) {
			a.err = fmt.Errorf("%s: %w", op, a.err)
		}
		return a.args, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: no answer: %w", op, ctx.Err())
	}
}

// await waits until the condition on the members holds; what tells what is waited for.
func (d *driver) await(ctx context.Context, what string, cond func(map[string]*member) bool) error {
	for {
		d.mu.Lock()
		ok, changed, ended := cond(d.members), d.changed, d.ended
		state := d.describe()
		d.mu.Unlock()
		if ok {
			return nil
		}
		if ended != nil {
			return ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; %s", what, ctx.Err(), state)
		}
	}
}

func (d *driver) describe() string {
	var s []string
	for name, m := range d.members {
		s = append(s, fmt.Sprintf("%s has %v and saw %d records", name, m.parts, len(m.seen)))
	}
	return strings.Join(s, "; ")
}

// stop ends the program: its input closes; one that does not mind is killed.
func (d *driver) stop() {
	_ = d.in.Close() // it may have gone already
	t := time.AfterFunc(3*time.Second, func() { _ = d.cmd.Process.Signal(os.Kill) })
	defer t.Stop()
	for {
		d.mu.Lock()
		ended, changed := d.ended, d.changed
		d.mu.Unlock()
		if ended != nil {
			return
		}
		<-changed
	}
}
