//go:build !linux

package httpd

import "net"

// gone is only known on Linux: elsewhere the lease of what a vanished client got has to end.
func gone(net.Conn) bool { return false }
