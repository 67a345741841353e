package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// bar is the progress of long work: one line that is written over, on a terminal only.
type bar struct {
	out   io.Writer // nil: nobody sees it
	what  string
	total int64 // 0: not known
	began time.Time
	drawn time.Time
	done  int64
	size  func() int // of the terminal, in columns
}

// redraw is how long a bar stays as it is.
const redraw = 100 * time.Millisecond

// newBar is the progress of work on total things, or bytes, on standard error.
func newBar(p *process, what string, total int64) *bar {
	b := &bar{what: what, total: total, began: time.Now()}
	if f, ok := terminal(p.err); ok {
		b.out, b.size = p.err, func() int { return columns(f) }
	}
	return b
}

// terminal is the file behind a stream, where that is a terminal.
func terminal(w any) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// columns is how wide a terminal is.
func columns(f *os.File) int {
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil || w <= 0 {
		return 80
	}
	return w
}

// at says how much is done.
func (b *bar) at(done int64) {
	b.done = done
	now := time.Now()
	if b.out == nil || now.Sub(b.drawn) < redraw {
		return
	}
	b.drawn = now
	_, _ = fmt.Fprintf(b.out, "\r%s\x1b[K", b.text(now, b.size()-1))
}

// end takes the bar away.
func (b *bar) end() {
	if b.out != nil && !b.drawn.IsZero() {
		_, _ = io.WriteString(b.out, "\r\x1b[K")
	}
}

// text is the bar in up to width columns.
func (b *bar) text(now time.Time, width int) string {
	elapsed := max(now.Sub(b.began), time.Millisecond)
	rate := float64(b.done) / elapsed.Seconds()
	amount := func(n float64) string {
		if b.what == "bytes" {
			return bytesText(int64(n))
		}
		return fmt.Sprintf("%.0f", n)
	}
	unit := ""
	if b.what != "bytes" {
		unit = " " + b.what
	}
	if b.total <= 0 {
		return clipTo(fmt.Sprintf("%s%s  %s/s  %v", amount(float64(b.done)), unit, amount(rate), elapsed.Round(time.Second)), width)
	}
	part := min(float64(b.done)/float64(b.total), 1)
	left := "-"
	if b.done > 0 {
		left = time.Duration(float64(elapsed) * (1 - part) / part).Round(time.Second).String()
	}
	const cells = 24
	full := int(part * cells)
	return clipTo(fmt.Sprintf("[%s%s] %3.0f%%  %s of %s%s  %s/s  %s left", strings.Repeat("#", full), strings.Repeat(" ", cells-full), 100*part,
		amount(float64(b.done)), amount(float64(b.total)), unit, amount(rate), left), width)
}

// clipTo is the beginning of a line of plain text.
func clipTo(text string, width int) string {
	if r := []rune(text); len(r) > width && width > 0 {
		return string(r[:width])
	}
	return text
}
