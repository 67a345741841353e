//go:build !linux

package front

import "net"

// Gone is only known on Linux: elsewhere the lease of what a vanished client got has to end.
func Gone(net.Conn) bool { return false }
