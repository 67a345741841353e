package cluster

import (
	"slices"
	"time"

	"polylog/core"
)

// forwarded is a command that is not for this node's own log.
type forwarded struct {
	proposal           // its command has a sequence only: the frame has the bytes
	outcome            // once answered
	end      int       // of the command's bytes in the frame's data
	until    time.Time // it is not sent after this; zero: its caller withdraws it
	gone     bool      // its caller has left: it is not to be sent, or sent again
}

// frame is a run of commands, encoded as forward_wire.go has it. A command that is too
// large for a message has a frame of its own.
type frame struct {
	data     []byte
	commands []forwarded
	sent     bool // the whole of it may have reached the leader
	answered int  // how many of commands have their outcome
	told     int  // how many of those are done with; told <= answered
}

const (
	// frameBytes is where a frame takes no more commands: what one Send should have.
	frameBytes = 256 << 10
	// chunkBytes is what one arena of small frames begins with.
	chunkBytes = 4 << 10
)

// room reports whether another command of size bytes belongs into the frame.
func (f *frame) room(size int) bool {
	return len(f.data)+size <= frameBytes
}

// add appends a command.
func (f *frame) add(pr proposal, until time.Time) {
	f.data = core.AppendCommand(f.data, &pr.command)
	pr.command = core.Command{Sequence: pr.command.Sequence}
	f.commands = append(f.commands, forwarded{proposal: pr, end: len(f.data), until: until})
}

// begin is where the bytes of command i begin.
func (f *frame) begin(i int) int {
	if i == 0 {
		return 0
	}
	return f.commands[i-1].end
}

// command is the i-th command. It aliases the frame.
func (f *frame) command(i int) core.Command {
	b := f.data[f.begin(i):f.commands[i].end]
	return core.Command{Code: core.Code(b[lengthLen]), Payload: b[core.CommandHeaderLen:], Sequence: f.commands[i].command.Sequence}
}

// rest is a frame, not sent, of the commands that are neither done with nor gone.
func (f *frame) rest() *frame {
	left := f.commands[f.told:]
	if f.answered == 0 && !slices.ContainsFunc(left, func(c forwarded) bool { return c.gone }) {
		f.sent = false
		return f
	}
	g := &frame{}
	for i, c := range left {
		if !c.gone {
			g.data = append(g.data, f.data[f.begin(f.told+i):c.end]...)
			c.end, c.outcome = len(g.data), outcome{}
			g.commands = append(g.commands, c)
		}
	}
	return g
}

// pieces calls send for messages of up to core.MaxStreamMessage bytes that make up the
// frame; last says that no more follow.
func (f *frame) pieces(send func(msg []byte, last bool) error) error {
	for b := f.data; len(b) > 0; {
		n := min(len(b), core.MaxStreamMessage)
		if err := send(b[:n], n == len(b)); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// commandOf reads a record of the wire: code and body. It aliases the record.
func commandOf(record []byte) core.Command {
	return core.Command{Code: core.Code(record[0]), Payload: record[1:]}
}
