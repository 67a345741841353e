package kafka

import (
	"strconv"
	"strings"

	"polylog/router"
)

// known is what a client has said of itself.
type known struct{ clientID, softwareName, softwareVersion, user string }

// note keeps what the client says of itself where others may read it. The reader calls it with
// each request.
func (s *session) note(clientID string) {
	was := s.known.Load()
	if was == nil || was.clientID != clientID || was.softwareName != s.softwareName || was.softwareVersion != s.softwareVersion || was.user != s.principal().Name {
		s.known.Store(&known{clientID, s.softwareName, s.softwareVersion, s.principal().Name}) // an allocation, not for each request
	}
}

// describe is the connection in a list.
func (c *conn) describe(k *router.Client) {
	k.Protocol, k.Since, k.Namespace = "kafka", c.since, c.srv.opts.Namespace
	k.Remote, k.Local = c.nc.RemoteAddr().String(), c.nc.LocalAddr().String()
	c.mu.Lock()
	waiting := len(c.pending)
	c.mu.Unlock()
	k.Details = append(k.Details, router.Detail{Name: "requests waiting", Value: strconv.Itoa(waiting)})
	if who := c.session.known.Load(); who != nil {
		k.User = who.user
		k.ClientID, k.Software = who.clientID, strings.TrimSpace(who.softwareName+" "+who.softwareVersion)
	}
}
