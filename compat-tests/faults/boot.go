package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
)

// boot gives the node's machine a new run of its operating system, as a power cut does: what a process finds
// lost then may be what the disk had not yet. The command has a process believe it, in a mount namespace of
// its own, and becomes what is appended to it.
func (n *node) boot() (under []string, err error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	file := filepath.Join(n.dir, "boot_id")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%x\n", id), 0o644); err != nil {
		return nil, err
	}
	return []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, file}, nil
}
