package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/config"
	"polylog/cmd/polylog/rest"
)

// finding is what a check found.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warning, failed or skipped
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"` // what to do
}

const (
	stateOK      = "ok"
	stateWarning = "warning"
	stateFailed  = "failed"
	stateSkipped = "skipped"
)

// doctor looks for what is wrong, or soon will be.
type doctor struct {
	apiFlags
	dataDir string // "": not on this machine
	lag     int64
	all     []finding
}

// errSick has `doctor` end with the exit code of a failure.
var errSick = errors.New("checks failed")

func newDoctor(p *process) *cobra.Command {
	d := &doctor{apiFlags: apiFlags{process: p}}
	cmd := d.verb("doctor", "Look for what is wrong, or soon will be, and say what to do; fails when something is", cobra.NoArgs, d.run)
	cmd.Long = "doctor asks a broker about its cluster: who answers, leader and majority, clocks, listeners, disk space, open\n" +
		"files, lag, dead letters, webhooks. With --data-dir it looks at that directory on this machine, too: rights, disk space,\n" +
		"and how long the disk takes to make a write last, by a file that it removes. It changes nothing else."
	d.add(cmd)
	addOutput(cmd, &d.output)
	cmd.Flags().StringVar(&d.dataDir, "data-dir", "", "a broker's data directory on this machine, such as "+config.Default().DataDir)
	cmd.Flags().Int64Var(&d.lag, "lag", 10_000, "messages that a reader may be behind without a warning")
	return cmd
}

func (d *doctor) run(ctx context.Context, c *rest.Client, _ []string) error {
	if d.dataDir != "" {
		d.disk(d.dataDir)
	}
	d.limits()
	d.broker(ctx, c)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := false
	for _, f := range d.all {
		failed = failed || f.State == stateFailed
	}
	err := d.show(d.all, func(w io.Writer) {
		row(w, "CHECK\tSTATE\tFOUND")
		for _, f := range d.all {
			row(w, f.Check, f.State, f.Found)
			if f.Advice != "" {
				row(w, "", "", "→ "+f.Advice)
			}
		}
	})
	if err == nil && failed {
		err = errSick
	}
	return err
}

// ok notes that a check found nothing wrong.
func (d *doctor) ok(check, format string, args ...any) { d.note(check, stateOK, "", format, args...) }

// warn notes what may become a failure.
func (d *doctor) warn(check, advice, format string, args ...any) {
	d.note(check, stateWarning, advice, format, args...)
}

// fail notes what is wrong.
func (d *doctor) fail(check, advice, format string, args ...any) {
	d.note(check, stateFailed, advice, format, args...)
}

func (d *doctor) note(check, state, advice, format string, args ...any) {
	d.all = append(d.all, finding{check, state, printable(fmt.Sprintf(format, args...)), advice})
}

// Bounds between well, a warning and a failure.
const (
	littleDisk = 2 << 30   // bytes
	noDisk     = 256 << 20 // bytes
	slowSync   = 20 * time.Millisecond
	fewFiles   = 4096
	clockApart = time.Second
)
