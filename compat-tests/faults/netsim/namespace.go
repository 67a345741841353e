package netsim

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace that lives as long as its file is open.
type namespace struct{ file *os.File }

// newNamespace makes a namespace with its loopback interface up.
func newNamespace() (ns namespace, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		if ns, err = currentNamespace(); err != nil {
			return err
		}
		return up("lo")
	})
	return ns, err
}

func currentNamespace() (namespace, error) {
	f, err := os.Open("/proc/thread-self/ns/net")
	return namespace{f}, err
}

// do runs fn with the calling thread in the namespace; what fn starts stays there.
func (ns namespace) do(fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return fn()
	})
}

// onThread runs fn on a thread that may change its namespace, and brings the thread home. A thread
// that cannot be brought home would run other goroutines in the wrong place, so that panics. It must
// not end either: the processes that it started would get their parent-death signal.
func onThread(fn func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := currentNamespace()
	if err != nil {
		return err
	}
	err = fn()
	if e := unix.Setns(int(home.file.Fd()), unix.CLONE_NEWNET); e != nil {
		panic(fmt.Sprintf("return to the own network namespace: %v", e))
	}
	return errors.Join(err, home.file.Close())
}
