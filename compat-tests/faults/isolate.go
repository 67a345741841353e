package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolated says that this process has namespaces of its own.
const isolated = "FAULTS_ISOLATED"

// keepFiles keeps the files that are open from the processes that will be started: neither a lock that
// whoever started us holds, nor a file system's connection to the kernel may live on in them. A node
// that waits for a disk whose server is dead would wait for ever if it held that connection itself.
func keepFiles() error {
	open, err := os.ReadDir("/proc/self/fd")
	for _, f := range open {
		if fd, e := strconv.Atoi(f.Name()); e == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// isolate runs this program again, with a network and mounts of its own: what it sets up meets
// nothing of the machine's, and is gone when it ends, however it ends. It returns the exit code.
func isolate() (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolated+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) {
			err = errors.New("root is needed for networks and disks of its own")
		}
		return 0, fmt.Errorf("isolate: %w", err)
	}
	go func() {
		for s := range interrupts {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}
