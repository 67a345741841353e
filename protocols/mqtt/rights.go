package mqtt

import (
	"errors"
	"strings"

	"polylog/core"
	"polylog/core/topicfilter"
	"polylog/router"
)

// Rights are those for topics of the log, where the names that clients say are mapped to.

// authorize checks that somebody may do something with a topic.
func (s *Server) authorize(p router.Principal, op router.Operation, topic string) error {
	return s.router.Authorize(p, op, router.Resource{
		Kind: router.ResourceTopic, Name: core.Name{Namespace: s.opts.Namespace, Name: topic},
	})
}

// authorizeName checks that somebody may read what is published to a topic name.
func (s *Server) authorizeName(p router.Principal, name string) error {
	topic, _, _ := s.mapping.place(name)
	return s.authorize(p, router.OpRead, topic)
}

// authorizeSys checks that somebody may see what the broker says of itself.
func (s *Server) authorizeSys(p router.Principal) error {
	return s.router.Authorize(p, router.OpDescribe, router.Resource{Kind: router.ResourceCluster})
}

// authorizeFilter checks that somebody may read the one topic that everything is in which a filter
// matches. Where there may be others, each message is asked for by itself.
func (s *Server) authorizeFilter(p router.Principal, filter string) error {
	first := topicfilter.FirstLevel(filter)
	switch {
	case strings.HasPrefix(filter, sysPrefix):
		return s.authorizeSys(p)
	case strings.HasPrefix(first, "$"), first == "+", first == "#":
		return nil
	case !strings.ContainsAny(filter, "+#"):
		return s.authorizeName(p, filter)
	case len(s.mapping.rules) > 0:
		return nil
	}
	return s.authorizeName(p, first)
}

// mayRead reports whether the client may read a message of a feed. One that it may not read passes its
// session by; one of a shared subscription is for the other members, whom the client leaves with that.
// A client that is not who it was is about to be told, and its session keeps the message.
func (s *session) mayRead(name string, at place) bool {
	err := s.srv.authorizeName(s.c.principal, name)
	if err == nil {
		return true
	}
	_, refused := errors.AsType[*router.RefusedError](err)
	switch f := at.feed; {
	case !refused:
		s.c.loggedOut()
	case f.shared:
		s.srv.log.Warn("mqtt client leaves a shared subscription: it met a message that it may not read", "client", s.c.client, "share", f.sub.Load().share, "err", err)
		s.mu.Lock()
		f.left = true
		s.mu.Unlock()
		s.closeFeed(f)
	default:
		s.pass(at)
	}
	return false
}
