package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen is a terminal that is drawn over and over; or, where there is none, what is printed one below the other.
type screen struct {
	out  io.Writer
	file *os.File      // nil: no terminal
	quit chan struct{} // closed when somebody presses q
	undo func()
}

// The terminal's alternate screen, without a cursor, and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// openScreen takes the terminal, and its keys.
func openScreen(p *process) (*screen, error) {
	s := &screen{out: p.out, quit: make(chan struct{}), undo: func() {}}
	f, ok := terminal(p.out)
	if !ok {
		return s, nil
	}
	s.file = f
	if in, ok := terminal(p.in); ok {
		old, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return nil, fmt.Errorf("take the terminal: %w", err)
		}
		s.undo = func() { _ = term.Restore(int(in.Fd()), old) } // what else could be done
		go s.keys(in)                                           // a read of a terminal ends with the process only
	}
	_, err := io.WriteString(s.out, enterScreen)
	return s, err
}

// keys waits for one that ends it: q, Escape, Ctrl-C.
func (s *screen) keys(in io.Reader) {
	var b [16]byte
	for {
		n, err := in.Read(b[:])
		if err != nil || strings.ContainsAny(string(b[:n]), "qQ\x03\x1b") {
			close(s.quit)
			return
		}
	}
}

// close gives the terminal back.
func (s *screen) close() {
	if s.file != nil {
		_, _ = io.WriteString(s.out, leaveScreen)
	}
	s.undo()
}

// height is how many lines there are; 0: any number.
func (s *screen) height() int {
	if s.file == nil {
		return 0
	}
	_, h, err := term.GetSize(int(s.file.Fd()))
	if err != nil || h <= 0 {
		return 24
	}
	return h
}

// draw shows lines instead of those before.
func (s *screen) draw(lines []string) error {
	if s.file == nil {
		_, err := io.WriteString(s.out, strings.Join(lines, "\n")+"\n\n")
		return err
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	width := columns(s.file)
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(clipTo(l, width) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(s.out, b.String())
	return err
}
