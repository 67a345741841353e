package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// TestFetchSession tells a session's life as a script: what is asked, what is answered.
func TestFetchSession(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 3, nil)
	c, producer := f.dial(), f.dial()
	var id int32
	ask := func(session, epoch int32, change func(*kmsg.FetchRequest), parts ...string) string {
		t.Helper()
		req := sessionFetch(topic, session, epoch, parts...)
		if change != nil {
			change(req)
		}
		resp := ask[*kmsg.FetchResponse](c, req)
		if resp.SessionID != 0 {
			id = resp.SessionID
		}
		return summary(t, resp)
	}
	step := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: %q, want %q", what, got, want)
		}
	}

	step("sessionless", ask(0, -1, nil, "0@0"), "0 none: 0=[]")
	step("create", ask(0, 0, nil, "0@0", "1@0"), "0 session: 0=[] 1=[]")
	step("no news", ask(id, 1, nil), "0 session:")
	producer.produced(9, topic, 1, batch(t, 0, 1, "a"))
	step("a record", ask(id, 2, nil), "0 session: 1=[a]")
	step("again, as the offset was not moved", ask(id, 3, nil), "0 session: 1=[a]")
	step("offset moved", ask(id, 4, nil, "1@1"), "0 session:")
	step("partition added", ask(id, 5, nil, "2@0"), "0 session: 2=[]")
	step("partition without end", ask(id, 6, nil, "2@5"), "0 session: 2!1")
	step("errors are told each time", ask(id, 7, nil), "0 session: 2!1")
	step("recovery is news", ask(id, 8, nil, "2@0"), "0 session: 2=[]")
	producer.produced(9, topic, 0, batch(t, 0, 1, "b"))
	step("forgotten", ask(id, 9, func(r *kmsg.FetchRequest) {
		r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{TopicID: topic.ID, Partitions: []int32{0}}}
	}), "0 session:")
	step("other way to name topics", ask(id, 10, func(r *kmsg.FetchRequest) { r.Version = 12 }), "106 none:")
	step("wrong epoch", ask(id, 12, nil), "71 none:")
	step("unknown session", ask(id+1, 1, nil), "70 none:")
	old := id
	step("replaced", ask(id, 0, nil, "0@0"), "0 session: 0=[b]")
	step("the old one is gone", ask(old, 10, nil), "70 none:")
	step("closed", ask(id, -1, nil, "0@0"), "0 none: 0=[b]")
	step("the last one is gone", ask(id, 1, nil), "70 none:")
}

// TestFetchSessionsEndWithTheirConnection keeps the cache free of the dead.
func TestFetchSessionsEndWithTheirConnection(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	ask[*kmsg.FetchResponse](c, sessionFetch(topic, 0, 0, "0@0"))
	_ = c.nc.Close()
	waitFor(t, func() bool { return f.conns() == 0 })
	cache := f.server.fetchSessions
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if len(cache.byID) != 0 || cache.recent.Len() != 0 || cache.bytes != 0 {
		t.Fatalf("%d sessions, %d in order, %d bytes are left", len(cache.byID), cache.recent.Len(), cache.bytes)
	}
}

// TestFetchSessionsAreBounded declines sessions when all slots are in use.
func TestFetchSessionsAreBounded(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	err := f.router.AlterBrokerConfig(t.Context(), router.Principal{}, []router.ConfigChange{{Key: "max.incremental.fetch.session.cache.slots", Value: "2"}}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		resp := ask[*kmsg.FetchResponse](f.dial(), sessionFetch(topic, 0, 0, "0@0"))
		if made := resp.SessionID != 0; made != (i < 2) {
			t.Fatalf("session %d made: %v", i, made)
		}
	}
}

// TestFetchSessionsOfNothing declines or ends sessions of partitions that do not exist.
func TestFetchSessionsOfNothing(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("t", 1, nil)
	c := f.dial()
	many := make([]string, maxUnknownParts+1)
	for i := range many {
		many[i] = fmt.Sprintf("%d@0", i+1)
	}
	if resp := ask[*kmsg.FetchResponse](c, sessionFetch(topic, 0, 0, many...)); resp.SessionID != 0 || resp.ErrorCode != 0 {
		t.Fatalf("session %d, code %d", resp.SessionID, resp.ErrorCode)
	}
	made := ask[*kmsg.FetchResponse](c, sessionFetch(topic, 0, 0, "0@0", "1@0"))
	if made.SessionID == 0 {
		t.Fatal("no session")
	}
	if resp := ask[*kmsg.FetchResponse](c, sessionFetch(topic, made.SessionID, 1, many...)); resp.ErrorCode != codeFetchSessionIDNotFound {
		t.Fatalf("code %d, want %d", resp.ErrorCode, codeFetchSessionIDNotFound)
	}
	cache := f.server.fetchSessions
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if len(cache.byID) != 0 || cache.bytes != 0 {
		t.Fatalf("%d sessions of %d bytes are left", len(cache.byID), cache.bytes)
	}
}

// TestFetchSessionBytes bounds what all sessions remember.
func TestFetchSessionBytes(t *testing.T) {
	cache := newFetchCache()
	parts := make([]fetchPart, maxSessionBytes/partBytes/2)
	for i := range parts {
		parts[i].partition = int32(i)
	}
	for i := range 3 {
		if made := cache.create(nil, parts, true, 1000) != nil; made != (i < 2) {
			t.Fatalf("session %d made: %v", i, made)
		}
	}
	if cache.bytes > maxSessionBytes {
		t.Fatalf("%d bytes", cache.bytes)
	}
}

// sessionFetch is a fetch of parts given as partition@offset.
func sessionFetch(topic *router.Topic, session, epoch int32, parts ...string) *kmsg.FetchRequest {
	req := fetchOne(fetchMax, topic, 0, 0)
	req.SessionID, req.SessionEpoch = session, epoch
	rp := req.Topics[0].Partitions[0]
	req.Topics[0].Partitions = nil
	for _, p := range parts {
		if _, err := fmt.Sscanf(p, "%d@%d", &rp.Partition, &rp.FetchOffset); err != nil {
			panic(err)
		}
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
	}
	if len(parts) == 0 {
		req.Topics = nil
	}
	return req
}

func summary(t *testing.T, resp *kmsg.FetchResponse) string {
	t.Helper()
	s := fmt.Sprintf("%d session:", resp.ErrorCode)
	if resp.SessionID == 0 {
		s = fmt.Sprintf("%d none:", resp.ErrorCode)
	}
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			if p.ErrorCode != 0 {
				s += fmt.Sprintf(" %d!%d", p.Partition, p.ErrorCode)
				continue
			}
			_, vs := values(t, p.RecordBatches)
			s += fmt.Sprintf(" %d=[%s]", p.Partition, strings.Join(vs, " "))
		}
	}
	return s
}
