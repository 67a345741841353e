package kafka

import (
	"sync/atomic"

	"polylog/core"
	"polylog/router"
)

// session is what a connection knows about its client. Fields are written by the
// reader goroutine only, before the requests that depend on them start.
type session struct {
	srv  *Server
	conn *conn

	who             atomic.Pointer[router.Principal] // a login changes it while earlier requests wait
	login           login
	inside          bool // another protocol has opened it, and says whose it is
	valid           bool // a well-formed request has come: larger frames are welcome
	softwareName    string
	softwareVersion string
	known           atomic.Pointer[known] // the same for other goroutines; nil: nothing yet
}

// principal is who the client is.
func (s *session) principal() router.Principal { return *s.who.Load() }

// topicName is a client's topic name in the session's namespace.
func (s *session) topicName(name string) core.Name {
	return core.Name{Namespace: s.srv.opts.Namespace, Name: name}
}

// topic finds a topic the way a request names it: by name, or by id in the versions
// that have one. The code says why there is none.
func (s *session) topic(name string, id core.TopicID, byID bool) (*router.Topic, int16) {
	if byID {
		t, ok := s.srv.router.TopicByID(id)
		if !ok || t.Name.Namespace != s.srv.opts.Namespace {
			return nil, codeUnknownTopicID
		}
		return t, codeNone
	}
	t, ok := s.srv.router.Topic(s.topicName(name))
	if !ok {
		return nil, codeUnknownTopicOrPartition
	}
	return t, codeNone
}

// topicFor is topic for a client that is about to do op. What it may not do that with it does not
// learn of: where a request names topics, it is refused whether there is one or not. Ids tell nothing.
func (s *session) topicFor(op router.Operation, name string, id core.TopicID, byID bool) (*router.Topic, int16) {
	t, code := s.topic(name, id, byID)
	resource := s.topicName(name)
	if t != nil {
		resource = t.Name
	}
	if (t != nil || !byID) && s.may(op, resource) != nil {
		return nil, codeTopicAuthorizationFailed
	}
	return t, code
}

// may is nil when the client has the right for op on a topic.
func (s *session) may(op router.Operation, topic core.Name) error {
	return s.srv.router.Authorize(s.principal(), op, router.Resource{Kind: router.ResourceTopic, Name: topic})
}

// mayCluster is nil when the client has the right for op on the cluster.
func (s *session) mayCluster(op router.Operation) error {
	return s.srv.router.Authorize(s.principal(), op, router.Resource{Kind: router.ResourceCluster})
}

// leaderEpochCode compares the leader epoch that a client believes in with ours.
func leaderEpochCode(client, current int32) int16 {
	switch {
	case client < 0 || client == current:
		return codeNone
	case client < current:
		return codeFencedLeaderEpoch
	default:
		return codeUnknownLeaderEpoch
	}
}
