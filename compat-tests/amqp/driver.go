package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"polylog/compat/amqp/clients/proto"
)

// errUnsupported is the outcome of an operation that a client has no means for.
var errUnsupported = errors.New("unsupported")

// driver is a running client program; see package proto for the conversation.
type driver struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	log io.Writer

	mu        sync.Mutex
	next      int
	waiting   map[int]chan proto.Reply
	delivered map[string][]proto.Delivery // by channel, what nobody has taken yet
	cancelled map[string]bool             // channel/tag
	changed   chan struct{}               // closed and replaced with each event
	ended     error                       // set when the program has ended
}

func startDriver(addr string, log io.Writer, command ...string) (*driver, error) {
	cmd := exec.Command(command[0], append(command[1:], addr)...)
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
		cmd: cmd, in: in, log: log,
		waiting: map[int]chan proto.Reply{}, delivered: map[string][]proto.Delivery{}, cancelled: map[string]bool{}, changed: make(chan struct{}),
	}
	go d.read(out)
	return d, nil
}

func (d *driver) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		fmt.Fprintf(d.log, "< %.300s\n", lines.Bytes())
		var r proto.Reply
		if err := json.Unmarshal(lines.Bytes(), &r); err == nil { // a library may print lines of its own
			d.hear(r)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = fmt.Errorf("the client program ended: %w", errors.Join(lines.Err(), d.cmd.Wait()))
	for _, c := range d.waiting {
		c <- proto.Reply{Error: &proto.Error{Text: d.ended.Error()}}
	}
	clear(d.waiting)
	d.tellLocked()
}

func (d *driver) tellLocked() {
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *driver) hear(r proto.Reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.Event == "deliver" && r.Delivery != nil:
		d.delivered[r.Ch] = append(d.delivered[r.Ch], *r.Delivery)
		d.tellLocked()
	case r.Event == "cancelled":
		d.cancelled[r.Ch+"/"+r.Tag] = true
		d.tellLocked()
	case r.Event == "":
		if c := d.waiting[r.ID]; c != nil {
			delete(d.waiting, r.ID)
			c <- r
		}
	}
}

// call runs one operation and waits for its outcome; what the broker refused is a *proto.Error.
func (d *driver) call(ctx context.Context, r proto.Request) (proto.Outcome, error) {
	d.mu.Lock()
	if d.ended != nil {
		d.mu.Unlock()
		return proto.Outcome{}, d.ended
	}
	d.next++
	r.ID = d.next
	c := make(chan proto.Reply, 1)
	d.waiting[r.ID] = c
	line, err := json.Marshal(r)
	if err == nil {
		fmt.Fprintf(d.log, "> %.300s\n", line)
		_, err = d.in.Write(append(line, '\n'))
	}
	d.mu.Unlock()
	if err != nil {
		return proto.Outcome{}, err
	}
	select {
	case a := <-c:
		switch {
		case a.Unsupported:
			return proto.Outcome{}, errUnsupported
		case a.Error != nil:
			return proto.Outcome{}, fmt.Errorf("%s: %w", r.Op, a.Error)
		case a.OK == nil:
			return proto.Outcome{}, fmt.Errorf("%s: an answer without an outcome", r.Op)
		}
		return *a.OK, nil
	case <-ctx.Done():
		return proto.Outcome{}, fmt.Errorf("%s: no answer: %w", r.Op, ctx.Err())
	}
}

// await waits until cond holds, which may use what is under the lock; what tells what is waited for.
func (d *driver) await(ctx context.Context, what string, cond func() bool) error {
	for {
		d.mu.Lock()
		ok, changed, ended := cond(), d.changed, d.ended
		d.mu.Unlock()
		switch {
		case ok:
			return nil
		case ended != nil:
			return ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}

// take waits for n deliveries on a channel and removes them.
func (d *driver) take(ctx context.Context, ch string, n int) (got []proto.Delivery, err error) {
	err = d.await(ctx, fmt.Sprintf("%d deliveries", n), func() bool {
		if len(d.delivered[ch]) < n {
			return false
		}
		got, d.delivered[ch] = d.delivered[ch][:n:n], d.delivered[ch][n:]
		return true
	})
	return got, err
}

// pending is how many deliveries on a channel nobody has taken.
func (d *driver) pending(ch string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.delivered[ch])
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
