package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// step is what an application program says on a line of its standard output: that it is about to do
// something, and how it went.
type step struct {
	Version string `json:"version"`
	Step    string `json:"step"`
	Error   string `json:"error"`
}

// runApplication runs a program that uses a library as its users do, and checks what it gets itself.
// It prints one line of JSON for each step; a program that ends otherwise than well is one failure.
func runApplication(ctx context.Context, o options, c client, addr string, log *os.File) row {
	out := row{name: c.name, application: true, cells: map[string]cell{}}
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.command[0], append(c.command[1:], addr, o.work)...)
	cmd.Stderr = log
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		out.broken = err
		return out
	}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		var s step
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue // not one of ours
		}
		if s.Version != "" {
			out.version = s.Version
		}
		if s.Step != "" {
			var err error
			if s.Error != "" {
				err = errors.New(s.Error)
				fmt.Fprintf(os.Stderr, "%-12s %-15s %s\n", c.name, s.Step, s.Error)
			}
			out.cells[s.Step] = cell{ran: true, err: err}
			out.steps = append(out.steps, s.Step)
		}
	}
	if err := cmd.Wait(); err != nil {
		out.broken = fmt.Errorf("%s: %w", c.name, err)
	} else if len(out.steps) == 0 {
		out.broken = fmt.Errorf("%s did nothing", c.name)
	}
	return out
}
