// Package harness starts brokers as users start them, as processes of their own:
// Polylog's binary, and Apache Kafka from its jars, which is what each compatibility
// test must pass on first and what the benchmarks compare with. It knows neither's
// code; it knows how to start, kill and weigh a process.
package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a started program whose output goes to a file.
type Process struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when the process has ended and err is set
	err  error
}

func start(cmd *exec.Cmd, logFile string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nothing outlives us
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", cmd.Path, err), log.Close())
	}
	p := &Process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		p.err = errors.Join(cmd.Wait(), log.Close())
		close(p.done)
	}()
	return p, nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends the process a signal; one that has ended does not mind.
func (p *Process) Signal(s os.Signal) {
	_ = p.cmd.Process.Signal(s) // it may have ended by itself
}

// Err is how the process ended: nil before it has, and when it ended well.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Kill ends the process as a power switch would, with SIGKILL, and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// Stop asks the process to end and waits; one that has not ended within the time is killed
// and an error tells so.
func (p *Process) Stop(within time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
		var exit *exec.ExitError
		if errors.As(p.err, &exit) && exit.ExitCode() == 143 {
			return nil // a JVM's way of saying that it obeyed SIGTERM
		}
		return p.err
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM", p.cmd.Path, within)
	}
}

// Usage is what a process has taken from the machine.
type Usage struct {
	CPU time.Duration // user and system time since its start
	RSS int64         // resident bytes now
	Max int64         // highest resident bytes so far
}

// clockTick is the unit of the times in /proc/PID/stat, fixed at 100 Hz by Linux's ABI.
const clockTick = 10 * time.Millisecond

// Usage reads /proc: fields 14 and 15 of stat, VmRSS and VmHWM of status.
func (p *Process) Usage() (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return Usage{}, err
	}
	// The second field is the program's name in parentheses and may hold spaces.
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(f) < 13 {
		return Usage{}, fmt.Errorf("/proc/%d/stat has %d fields after the name", p.PID(), len(f))
	}
	var u Usage
	for _, s := range f[11:13] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("/proc/%d/stat: %w", p.PID(), err)
		}
		u.CPU += time.Duration(n) * clockTick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return Usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			u.RSS = kb << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			u.Max = kb << 10
		}
	}
	return u, nil
}
