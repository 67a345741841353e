package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// restart has the process start anew, as the same program with the same arguments: what
// it has in memory no longer fits what is on its disk (cluster.Options.Restart). It does
// not return.
func (b *broker) restart(reason error) {
	err := execSelf()
	b.fatal(fmt.Errorf("%w; start it again (it could not do so itself: %w)", reason, err))
}

// execSelf replaces the process. Files and sockets are closed by that, and with them the
// lock of the data directory goes.
func execSelf() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	exe = strings.TrimSuffix(exe, " (deleted)") // an upgrade has put another one there
	return syscall.Exec(exe, os.Args, os.Environ())
}
