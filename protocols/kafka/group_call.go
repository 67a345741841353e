package kafka

import (
	"net"

	"polylog/core"
	"polylog/router"
)

// authorizeGroup is the code to refuse an operation on a group with, 0 when it is allowed.
func (c *call) authorizeGroup(op router.Operation, id string) int16 {
	res := router.Resource{Kind: router.ResourceGroup, Name: core.Name{Name: id}}
	if c.srv.router.Authorize(c.principal(), op, res) != nil {
		return codeGroupAuthorizationFailed
	}
	return codeNone
}

// clientHost is the client's address as Kafka shows it: "/" and the IP address.
func (c *call) clientHost() string {
	host, _, err := net.SplitHostPort(c.conn.nc.RemoteAddr().String())
	if err != nil {
		return "/" + c.conn.nc.RemoteAddr().String()
	}
	return "/" + host
}

// text is a nullable string, "" for null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// nullable is null for "".
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
