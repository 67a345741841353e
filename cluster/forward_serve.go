package cluster

import (
	"errors"
	"io"
	"sync"

	"polylog/core"
)

// maxUnread is how many bytes of answers may wait for a node that does not read them
// before its commands are not read either.
const maxUnread = 4 << 20

// serveProposals does the commands of another node. See forwarder for what it promises.
func (n *Node) serveProposals(_ string, s core.Stream) error {
	if err := n.refusal(); err != nil {
		return err
	}
	if err := s.Send(nil); err != nil {
		return err
	}
	a := &answers{machine: n.machine, wake: make(chan struct{}, 1)}
	a.cond = sync.NewCond(&a.mu)
	// It ends with the stream, which ends with our return: a refusal ends the stream
	// while nothing comes.
	n.calls.Go(func() { n.takeProposals(s, a) })
	return a.write(s)
}

// takeProposals proposes what comes, until the other side is done or something was
// refused.
func (n *Node) takeProposals(s core.Stream, a *answers) {
	in := assembler{limit: core.MaxCommandLen}
	for {
		msg, err := s.Recv()
		if err == nil {
			err = in.add(msg, func(record []byte) bool {
				if !a.expect() {
					return false
				}
				c := commandOf(record)
				err := n.o.Admit(c.Code) // by the level here, whatever the other node believes
				if err == nil {
					err = n.proposer.submit(proposal{command: c, done: a.add})
				}
				if err != nil {
					a.refuse(err)
				}
				return err == nil
			})
		}
		if err != nil {
			a.finish(err)
			return
		}
	}
}

// answers are on their way to the node whose commands they are for.
type answers struct {
	machine StateMachine
	wake    chan struct{} // for write

	mu       sync.Mutex
	cond     *sync.Cond // on mu: out has room, or no command is to be taken any more
	out      []byte     // guarded by mu, as is all below
	pending  int        // commands that have no answer yet
	refused  bool       // one was: nothing more is taken
	refusal  error      // of the last command that came, which was not even taken
	finished bool       // no more commands come
	err      error      // nobody is there to read, or what came makes no sense
}

// expect waits for room for answers and notes that a command is taken, unless none is
// to be.
func (a *answers) expect() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.out) > maxUnread && !a.refused && a.err == nil {
		a.cond.Wait()
	}
	if a.refused || a.err != nil {
		return false
	}
	a.pending++
	return true
}

// add takes a command's outcome. It is called by the completer, in order.
func (a *answers) add(r core.Result, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending--
	if a.err == nil {
		a.out = appendAnswer(a.out, a.machine.Applied(), r, err)
	}
	if isRefusal(err) || core.KindOf(err) == core.Uncertain { // maybe this node leads anew by the next one
		a.refused = true
		a.cond.Broadcast()
	}
	signal(a.wake)
}

// refuse takes the refusal of the command that was expected last. The answers to those
// before it come first.
func (a *answers) refuse(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending--
	a.refused, a.refusal = true, err
	a.cond.Broadcast()
	signal(a.wake)
}

// finish says that no more commands come, and why.
func (a *answers) finish(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finished = true
	if !errors.Is(why, io.EOF) && a.err == nil {
		a.err, a.out = why, nil
		a.cond.Broadcast()
	}
	signal(a.wake)
}

// write sends answers until all are sent that will ever come, or nobody is there.
func (a *answers) write(s core.Stream) error {
	var out []byte
	for range a.wake {
		a.mu.Lock()
		last, err := (a.refused || a.finished) && a.pending == 0, a.err
		if last && a.refusal != nil && err == nil {
			a.out = appendAnswer(a.out, 0, core.Result{}, a.refusal)
		}
		out, a.out = a.out, out[:0]
		a.cond.Broadcast()
		a.mu.Unlock()
		for b := out; len(b) > 0 && err == nil; {
			k := min(len(b), core.MaxStreamMessage)
			err = s.Send(b[:k])
			b = b[k:]
		}
		if err != nil {
			a.finish(err)
			return err
		}
		if last {
			return nil
		}
		if cap(out) > maxUnread {
			out = nil
		}
	}
	return nil
}
