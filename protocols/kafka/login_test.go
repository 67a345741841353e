package kafka

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"

	"polylog/protocols/kafka/group"
	"polylog/router"
	"polylog/router/routertest"
)

// quickly has failed logins answered at once.
func quickly(o *Options) { o.loginDelay = time.Nanosecond }

// users makes an administrator, and dev, who may read and write topics and groups that begin with d.
func (f *fixture) users() router.Principal {
	f.t.Helper()
	routertest.AddUser(f.t, f.router, "admin", router.TagAdministrator)
	routertest.AddUser(f.t, f.router, "dev")
	routertest.Grant(f.t, f.router, "admin", ".*", ".*", ".*")
	routertest.Grant(f.t, f.router, "dev", "", "^d", "^d")
	return routertest.Admin(f.t, f.router)
}

func (c *client) handshake(version int16, mechanism string) *kmsg.SASLHandshakeResponse {
	c.t.Helper()
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = version, mechanism
	return ask[*kmsg.SASLHandshakeResponse](c, req)
}

func (c *client) token(version int16, token string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = version, []byte(token)
	return ask[*kmsg.SASLAuthenticateResponse](c, req)
}

// login is a whole login by PLAIN.
func (c *client) login(user string) *client {
	c.t.Helper()
	if r := c.handshake(1, "PLAIN"); r.ErrorCode != 0 {
		c.t.Fatalf("handshake: code %d", r.ErrorCode)
	}
	if r := c.token(2, "\x00"+user+"\x00pw-"+user); r.ErrorCode != 0 || r.SessionLifetimeMillis != 0 {
		c.t.Fatalf("authenticate: %+v, %s", r, text(r.ErrorMessage))
	}
	return c
}

func (c *client) rawToken(token string) string {
	c.t.Helper()
	c.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...))
	return string(c.read())
}

func (c *client) served() {
	c.t.Helper()
	ask[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest())
}

// TestNoUsers answers as a listener without SASL does.
func TestNoUsers(t *testing.T) {
	c := start(t, nil).dial()
	if r := c.handshake(1, "PLAIN"); r.ErrorCode != codeIllegalSASLState || len(r.SupportedMechanisms) != 0 {
		t.Fatalf("%+v", r)
	}
	if r := c.token(2, "\x00a\x00b"); r.ErrorCode != codeIllegalSASLState {
		t.Fatalf("%+v", r)
	}
	c.served()
}

func TestPlain(t *testing.T) {
	f := start(t, quickly)
	f.users()
	for version := int16(0); version <= 2; version++ {
		c := f.dial()
		ask[*kmsg.ApiVersionsResponse](c, kmsg.NewPtrApiVersionsRequest())
		if r := c.handshake(1, "PLAIN"); r.ErrorCode != 0 || strings.Join(r.SupportedMechanisms, " ") != "PLAIN SCRAM-SHA-256 SCRAM-SHA-512" {
			t.Fatalf("%+v", r)
		}
		if r := c.token(version, "\x00dev\x00pw-dev"); r.ErrorCode != 0 || len(r.SASLAuthBytes) != 0 {
			t.Fatalf("%+v", r)
		}
		c.served()
	}
	c := f.dial()
	c.handshake(0, "PLAIN")
	if got := c.rawToken("dev\x00dev\x00pw-dev"); got != "" {
		t.Fatalf("answer %q", got)
	}
	c.served()
}

// TestRefusedLogins says why and closes the connection.
func TestRefusedLogins(t *testing.T) {
	f := start(t, quickly)
	f.users()
	const invalid = "Authentication failed: Invalid username or password"
	const generic = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
	for _, tc := range []struct{ mechanism, token, want string }{
		{"PLAIN", "\x00dev\x00pw-admin", invalid},
		{"PLAIN", "\x00eve\x00pw-dev", invalid},
		{"PLAIN", "\x00dev\x00" + strings.Repeat("x", 2000), invalid},
		{"PLAIN", "admin\x00dev\x00pw-dev", "Authentication failed: Client requested an authorization id that is different from username"},
		{"PLAIN", "dev\x00pw-dev", generic + "PLAIN"},
		{"PLAIN", "\x00dev\x00pw-dev\x00", generic + "PLAIN"},
		{"PLAIN", "\x00\x00", generic + "PLAIN"},
		{"PLAIN", "", generic + "PLAIN"},
		{"PLAIN", "\x00dev\x00" + strings.Repeat("x", maxToken), generic + "PLAIN"},
		{"SCRAM-SHA-256", "nonsense", generic + "SCRAM-SHA-256"},
		{"SCRAM-SHA-512", "", generic + "SCRAM-SHA-512"},
	} {
		c := f.dial()
		c.handshake(1, tc.mechanism)
		if r := c.token(2, tc.token); r.ErrorCode != codeSASLAuthenticationFailed || text(r.ErrorMessage) != tc.want {
			t.Fatalf("%.40q: code %d, %q", tc.token, r.ErrorCode, text(r.ErrorMessage))
		}
		c.closed()
	}
	c := f.dial()
	c.handshake(0, "PLAIN")
	c.write([]byte("\x00\x00\x00\x06\x00dev\x00x"))
	c.closed()
	if got := f.server.metrics.refusedLogins.Load(); got != 12 {
		t.Fatalf("%d refused logins are counted", got)
	}
}

// TestBeforeLogin ends connections that ask for what is not theirs yet.
func TestBeforeLogin(t *testing.T) {
	f := start(t, quickly)
	topic := f.topic("d", 1, nil)
	f.users()
	for name, do := range map[string]func(c *client){
		"metadata":    func(c *client) { c.send(kmsg.NewPtrMetadataRequest()) },
		"produce":     func(c *client) { c.send(produceOne(9, topic, 0, batch(t, 0, 1, "x"))) },
		"mid login":   func(c *client) { c.handshake(1, "PLAIN"); c.send(kmsg.NewPtrMetadataRequest()) },
		"large token": func(c *client) { c.handshake(0, "PLAIN"); c.write([]byte{0, 1, 0, 0, 1}) },
		"negative":    func(c *client) { c.handshake(0, "PLAIN"); c.write([]byte{0xff, 0xff, 0xff, 0xff}) },
		"mechanism": func(c *client) {
			if r := c.handshake(1, "GSSAPI"); r.ErrorCode != codeUnsupportedSASLMechanism || len(r.SupportedMechanisms) != 3 {
				t.Errorf("%+v", r)
			}
		},
		"second handshake": func(c *client) {
			c.handshake(1, "PLAIN")
			if r := c.handshake(1, "PLAIN"); r.ErrorCode != codeIllegalSASLState {
				t.Errorf("%+v", r)
			}
		},
		"no handshake": func(c *client) {
			if r := c.token(2, "\x00dev\x00pw-dev"); r.ErrorCode != codeIllegalSASLState {
				t.Errorf("%+v", r)
			}
		},
		"large frame": func(c *client) {
			ask[*kmsg.ApiVersionsResponse](c, kmsg.NewPtrApiVersionsRequest())
			c.write(binary.BigEndian.AppendUint32(nil, firstRequestBytes+1))
			c.write([]byte{0, 36, 0, 2, 0, 0, 0, 1})
		},
	} {
		t.Run(name, func(*testing.T) {
			c := f.dial()
			do(c)
			c.closed()
		})
	}
}

// scramLogin is a login by SCRAM; step sends a token and returns the answer.
func scramLogin(t *testing.T, h scram.HashGeneratorFcn, user, password string, step func(string) string) error {
	t.Helper()
	talk, err := h.NewClientUnprepped(user, password, "")
	if err != nil {
		t.Fatal(err)
	}
	conv := talk.NewConversation()
	reply := ""
	for !conv.Done() {
		token, err := conv.Step(reply)
		if err != nil || conv.Done() {
			return err
		}
		reply = step(token)
	}
	return nil
}

func TestScram(t *testing.T) {
	f := start(t, quickly)
	f.users()
	for mechanism, h := range map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512} {
		for version := int16(0); version <= 1; version++ {
			c := f.dial()
			c.handshake(version, mechanism)
			step := c.rawToken
			if version == 1 {
				step = func(s string) string { return string(c.token(2, s).SASLAuthBytes) }
			}
			if err := scramLogin(t, h, "dev", "pw-dev", step); err != nil {
				t.Fatal(err)
			}
			c.served()
		}
		for _, user := range []string{"dev", "eve"} { // a user that is not there answers as one that is
			c := f.dial()
			c.handshake(1, mechanism)
			refused := 0
			_ = scramLogin(t, h, user, "wrong", func(s string) string {
				r := c.token(2, s)
				if r.ErrorCode == codeSASLAuthenticationFailed && strings.HasSuffix(text(r.ErrorMessage), mechanism) {
					refused++
				}
				return string(r.SASLAuthBytes)
			})
			if refused != 1 {
				t.Fatalf("%s is refused %d times", user, refused)
			}
			c.closed()
		}
	}
}

// TestLoginAgain lets a client log in again on a connection as who it is (KIP-368), and nobody else.
func TestLoginAgain(t *testing.T) {
	f := start(t, quickly)
	f.users()
	c := f.dial().login("dev")
	c.served()
	c.login("dev").served()
	if r := c.token(2, "x"); r.ErrorCode != codeIllegalSASLState {
		t.Fatalf("%+v", r)
	}
	c.served()
	c.handshake(1, "PLAIN")
	if r := c.token(2, "\x00admin\x00pw-admin"); r.ErrorCode != codeSASLAuthenticationFailed || !strings.Contains(text(r.ErrorMessage), "Cannot change principals") {
		t.Fatalf("%+v", r)
	}
	c.closed()
	c = f.dial().login("dev")
	c.handshake(1, "SCRAM-SHA-256")
	if r := c.token(2, "n,,n=dev,r=x"); r.ErrorCode != codeSASLAuthenticationFailed {
		t.Fatalf("%+v", r)
	}
	c.closed()
}

// TestConnectionsEndWithTheirUser covers nobody's when there is a first user, a changed password and a
// deleted user; fetches that wait do not hold them.
func TestConnectionsEndWithTheirUser(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("d", 1, nil)
	waiting := func(c *client) *client {
		req := fetchOne(fetchMax, topic, 0, 0)
		req.MaxWaitMillis, req.MinBytes = 600_000, 1
		c.send(req)
		return c
	}
	nobody := waiting(f.dial())
	admin := f.users()
	nobody.closed()
	dev, other := waiting(f.dial().login("dev")), f.dial().login("admin")
	if _, err := f.router.SetUser(t.Context(), admin, "dev", router.UserChange{There: true, Password: new("pw-dev")}); err != nil {
		t.Fatal(err)
	}
	dev.closed()
	dev = waiting(f.dial().login("dev"))
	if err := f.router.DeleteUser(t.Context(), admin, "dev", false); err != nil {
		t.Fatal(err)
	}
	dev.closed()
	other.served()
}

// TestLoginAgainWhileFetching logs in again while a fetch waits, which goes on as who the client is.
func TestLoginAgainWhileFetching(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("d", 1, nil)
	f.users()
	c := f.dial().login("dev")
	fetch := fetchOne(fetchMax, topic, 0, 0)
	fetch.MaxWaitMillis, fetch.MinBytes = 600_000, 600<<10
	c.send(fetch)
	producer := f.dial().login("dev")
	again := func() {
		shake := kmsg.NewPtrSASLHandshakeRequest()
		shake.Version, shake.Mechanism = 1, "PLAIN"
		token := kmsg.NewPtrSASLAuthenticateRequest()
		token.Version, token.SASLAuthBytes = 2, []byte("\x00dev\x00pw-dev")
		c.send(shake)
		c.send(token)
		if p := producer.produced(9, topic, 0, batch(t, 0, 1, strings.Repeat("x", 400<<10))); p.ErrorCode != 0 {
			t.Fatalf("code %d", p.ErrorCode)
		}
	}
	for range 2 {
		again()
	}
	if p := answer[*kmsg.FetchResponse](c, fetch).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) < 600<<10 {
		t.Fatalf("code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
}

// TestRightsMidConnection takes a right while a fetch waits.
func TestRightsMidConnection(t *testing.T) {
	f := start(t, nil)
	topic := f.topic("d", 1, nil)
	f.users()
	c := f.dial().login("dev")
	req := fetchOne(fetchMax, topic, 0, 0)
	req.MaxWaitMillis, req.MinBytes = 600_000, 1
	c.send(req)
	routertest.Grant(t, f.router, "dev", "", "^d", "^x")
	if p := f.dial().login("dev").produced(9, topic, 0, batch(t, 0, 1, "secret")); p.ErrorCode != 0 {
		t.Fatalf("code %d", p.ErrorCode)
	}
	if p := answer[*kmsg.FetchResponse](c, req).Topics[0].Partitions[0]; p.ErrorCode != codeTopicAuthorizationFailed || len(p.RecordBatches) > 0 {
		t.Fatalf("code %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
}

// TestRightsOfKafka has the codes that a user without rights gets; names that do not exist tell nothing.
func TestRightsOfKafka(t *testing.T) {
	f := start(t, nil)
	f.topic("d", 1, nil)
	secret := f.topic("secret", 1, nil)
	f.users()
	c := f.dial().login("dev")

	meta := kmsg.NewPtrMetadataRequest()
	meta.Version, meta.AllowAutoTopicCreation = 9, true
	meta.Topics = nil
	if r := ask[*kmsg.MetadataResponse](c, meta); len(r.Topics) != 1 || text(r.Topics[0].Topic) != "d" {
		t.Fatalf("%+v", r.Topics)
	}
	meta.Topics = []kmsg.MetadataRequestTopic{{Topic: new("secret")}, {Topic: new("none")}, {Topic: new("dnew")}}
	for _, topic := range ask[*kmsg.MetadataResponse](c, meta).Topics {
		if topic.ErrorCode != codeTopicAuthorizationFailed || topic.TopicID != [16]byte{} {
			t.Fatalf("%s: code %d", text(topic.Topic), topic.ErrorCode)
		}
	}
	meta.AllowAutoTopicCreation = false
	if r := ask[*kmsg.MetadataResponse](c, meta); r.Topics[2].ErrorCode != codeUnknownTopicOrPartition {
		t.Fatalf("code %d", r.Topics[2].ErrorCode)
	}
	gone := *secret
	gone.Name.Name = "none"
	for _, topic := range []*router.Topic{secret, &gone} {
		if p := c.produced(9, topic, 0, batch(t, 0, 1, "x")); p.ErrorCode != codeTopicAuthorizationFailed {
			t.Fatalf("produce: code %d", p.ErrorCode)
		}
		if p := c.fetched(fetchOne(11, topic, 0, 0)); p.ErrorCode != codeTopicAuthorizationFailed {
			t.Fatalf("fetch: code %d", p.ErrorCode)
		}
		del := kmsg.NewPtrDeleteTopicsRequest()
		del.Version, del.TopicNames = 1, []string{topic.Name.Name}
		if r := ask[*kmsg.DeleteTopicsResponse](c, del); r.Topics[0].ErrorCode != codeTopicAuthorizationFailed {
			t.Fatalf("delete: code %d", r.Topics[0].ErrorCode)
		}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 5
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "dnew", NumPartitions: 1, ReplicationFactor: 1}}
	if r := ask[*kmsg.CreateTopicsResponse](c, create); r.Topics[0].ErrorCode != codeTopicAuthorizationFailed {
		t.Fatalf("create: code %d", r.Topics[0].ErrorCode)
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group = 5, "other"
	if r := ask[*kmsg.JoinGroupResponse](c, join); r.ErrorCode != codeGroupAuthorizationFailed {
		t.Fatalf("join: code %d", r.ErrorCode)
	}
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 3
	if r := ask[*kmsg.DescribeLogDirsResponse](c, dirs); r.ErrorCode != codeClusterAuthorizationFailed {
		t.Fatalf("log dirs: code %d", r.ErrorCode)
	}
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version = 2
	if r := ask[*kmsg.InitProducerIDResponse](c, init); r.ErrorCode != codeNone {
		t.Fatalf("producer id: code %d", r.ErrorCode)
	}
}

// TestMembersWithDifferentRights has two users in one group of KIP-848. What one may not know of stays
// the other's, whoever sends the last heartbeat, and patterns match what their user may know of.
func TestMembersWithDifferentRights(t *testing.T) {
	f := start(t, quick)
	f.topic("d", 1, nil)
	f.topic("secret", 1, nil)
	f.users()
	admin, dev := f.dial().login("admin"), f.dial().login("dev")
	joining := func(group, member string, names []string, pattern string) *kmsg.ConsumerGroupHeartbeatRequest {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, member, 60_000
		req.SubscribedTopicNames, req.Topics = names, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if pattern != "" {
			req.SubscribedTopicRegex = &pattern
		}
		return req
	}
	targets := func(group, member string) string {
		t.Helper()
		live, found, err := f.server.LiveGroup(t.Context(), group)
		if err != nil || !found {
			t.Fatalf("group %s: %v", group, err)
		}
		for _, m := range live.Members {
			if m.ID == member {
				return fmt.Sprint(m.Assigned)
			}
		}
		return "no member"
	}
	for _, name := range []string{"secret", "none"} {
		req := joining("dnamed", "m2", []string{"d", name}, "")
		wantCode(t, req, ask[*kmsg.ConsumerGroupHeartbeatResponse](dev, req).ErrorCode, codeTopicAuthorizationFailed)
	}
	first := joining("dnamed", "m1", []string{"secret"}, "")
	r := ask[*kmsg.ConsumerGroupHeartbeatResponse](admin, first)
	wantCode(t, first, r.ErrorCode, codeNone)
	second := joining("dnamed", "m2", []string{"d", "dnone"}, "")
	wantCode(t, second, ask[*kmsg.ConsumerGroupHeartbeatResponse](dev, second).ErrorCode, codeNone)
	first.MemberEpoch, first.Topics, first.RebalanceTimeoutMillis = r.MemberEpoch, nil, -1
	first.SubscribedTopicNames = nil
	wantCode(t, first, ask[*kmsg.ConsumerGroupHeartbeatResponse](admin, first).ErrorCode, codeNone)
	if got := targets("dnamed", "m1"); got != "[{secret [0]}]" {
		t.Errorf("by names m1 has %s", got)
	}
	if got := targets("dnamed", "m2"); got != "[{d [0]}]" {
		t.Errorf("by names m2 has %s", got)
	}

	third := joining("dmatched", "m2", nil, ".*")
	wantCode(t, third, ask[*kmsg.ConsumerGroupHeartbeatResponse](dev, third).ErrorCode, codeNone)
	if got := targets("dmatched", "m2"); got != "[{d [0]}]" {
		t.Errorf("by a pattern m2 has %s", got)
	}
	fourth := joining("dmatched", "m1", nil, "s.*")
	wantCode(t, fourth, ask[*kmsg.ConsumerGroupHeartbeatResponse](admin, fourth).ErrorCode, codeNone)
	if got := targets("dmatched", "m1"); got != "[{secret [0]}]" {
		t.Errorf("by a pattern m1 has %s", got)
	}
	large := joining("dmatched", "m3", nil, "("+strings.Repeat("a", 100)+"){900}")
	wantCode(t, large, ask[*kmsg.ConsumerGroupHeartbeatResponse](dev, large).ErrorCode, int16(group.InvalidRegex))
}

// TestScramCredentials sets them by salted passwords, as kafka-configs does.
func TestScramCredentials(t *testing.T) {
	f := start(t, quickly)
	f.users()
	salt := []byte("0123456789abcdef")
	salted, err := pbkdf2.Key(sha512.New, "tiger", salt, 4096, sha512.Size)
	if err != nil {
		t.Fatal(err)
	}
	up := kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: "scott", Mechanism: 2, Iterations: 4096, Salt: salt, SaltedPassword: salted}
	alter := func(c *client, change func(*kmsg.AlterUserSCRAMCredentialsRequest)) (codes []int16) {
		t.Helper()
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		change(req)
		for _, r := range ask[*kmsg.AlterUserSCRAMCredentialsResponse](c, req).Results {
			codes = append(codes, r.ErrorCode)
		}
		return codes
	}
	one := func(c *client, change func(*kmsg.AlterUserSCRAMCredentialsRequestUpsertion)) int16 {
		t.Helper()
		codes := alter(c, func(req *kmsg.AlterUserSCRAMCredentialsRequest) {
			u := up
			change(&u)
			req.Upsertions = append(req.Upsertions, u)
		})
		if len(codes) != 1 {
			t.Fatalf("%d results", len(codes))
		}
		return codes[0]
	}
	c := f.dial().login("admin")
	for want, change := range map[int16]func(*kmsg.AlterUserSCRAMCredentialsRequestUpsertion){
		codeUnsupportedSASLMechanism: func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Mechanism = 3 },
		codeUnacceptableCredential:   func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Iterations = 4095 },
	} {
		if got := one(c, change); got != want {
			t.Errorf("code %d, want %d", got, want)
		}
	}
	for _, change := range []func(*kmsg.AlterUserSCRAMCredentialsRequestUpsertion){
		func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Iterations = 16385 },
		func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Name = "" },
		func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Salt = nil },
		func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.SaltedPassword = salt },
	} {
		if got := one(c, change); got != codeUnacceptableCredential {
			t.Errorf("code %d", got)
		}
	}
	if f.router.User("scott") != nil {
		t.Fatal("what was refused has made a user")
	}
	keep := func(*kmsg.AlterUserSCRAMCredentialsRequestUpsertion) {}
	if got := one(f.dial().login("dev"), keep); got != codeClusterAuthorizationFailed {
		t.Fatalf("code %d", got)
	}
	if got := one(c, keep); got != codeNone {
		t.Fatalf("code %d", got)
	}
	s := f.dial()
	s.handshake(1, "SCRAM-SHA-512")
	if err := scramLogin(t, scram.SHA512, "scott", "tiger", func(x string) string { return string(s.token(1, x).SASLAuthBytes) }); err != nil {
		t.Fatal(err)
	}
	s.served()

	describe := func(c *client, names ...string) *kmsg.DescribeUserSCRAMCredentialsResponse {
		req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, n := range names {
			req.Users = append(req.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: n})
		}
		return ask[*kmsg.DescribeUserSCRAMCredentialsResponse](c, req)
	}
	if r := describe(c); len(r.Results) != 3 || len(r.Results[0].CredentialInfos) != 2 || r.Results[2].User != "scott" ||
		len(r.Results[2].CredentialInfos) != 1 || r.Results[2].CredentialInfos[0].Iterations != 4096 {
		t.Fatalf("%+v", r)
	}
	if r := describe(c, "none", "dev", "dev"); len(r.Results) != 2 || r.Results[0].ErrorCode != codeResourceNotFound || r.Results[1].ErrorCode != codeDuplicateResource {
		t.Fatalf("%+v", r)
	}
	if r := describe(f.dial().login("dev")); r.ErrorCode != codeClusterAuthorizationFailed || len(r.Results) != 0 {
		t.Fatalf("%+v", r)
	}

	drop := func(user string, mechanism int8) int16 {
		return alter(c, func(req *kmsg.AlterUserSCRAMCredentialsRequest) {
			req.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: user, Mechanism: mechanism}}
		})[0]
	}
	if got := drop("scott", 1); got != codeResourceNotFound {
		t.Fatalf("code %d", got)
	}
	if got := drop("scott", 2); got != codeNone {
		t.Fatalf("code %d", got)
	}
	s.closed()
	twice := alter(c, func(req *kmsg.AlterUserSCRAMCredentialsRequest) {
		req.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{up, up}
	})
	if len(twice) != 1 || twice[0] != codeDuplicateResource {
		t.Fatalf("%v", twice)
	}
	both := alter(c, func(req *kmsg.AlterUserSCRAMCredentialsRequest) {
		req.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "admin", Mechanism: 1}, {Name: "admin", Mechanism: 2}}
	})
	if len(both) != 1 || both[0] != codeUnacceptableCredential {
		t.Fatalf("the last administrator's password: %v", both)
	}
	c.served()
}

// TestInsideAsTheCaller serves other protocols' connections with their caller's rights, on this node and
// from another one, and ends them with the caller.
func TestInsideAsTheCaller(t *testing.T) {
	f := start(t, nil)
	other := f.join("b", nil)
	admin := f.users()
	waitFor(t, func() bool { return other.router.User("dev") != nil && len(other.router.User("dev").Rights) == 1 })
	dev, err := other.router.Login(t.Context(), "dev", "pw-dev", "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	var open []*client
	for _, node := range []*fixture{f, other} {
		nc, err := node.server.DialCoordinator(t.Context(), Caller{Principal: dev, From: "10.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
		c := &client{t: t, nc: nc}
		for name, want := range map[string]int16{"done": codeUnknownMemberID, "other": codeGroupAuthorizationFailed} {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID = name, "m"
			if r := ask[*kmsg.HeartbeatResponse](c, req); r.ErrorCode != want {
				t.Fatalf("%s: code %d", name, r.ErrorCode)
			}
		}
		if r := c.handshake(1, "PLAIN"); r.ErrorCode != codeIllegalSASLState {
			t.Fatalf("code %d", r.ErrorCode)
		}
		open = append(open, c)
	}
	if err := f.router.DeleteUser(t.Context(), admin, "dev", false); err != nil {
		t.Fatal(err)
	}
	for _, c := range open {
		c.closed()
	}
}

// FuzzLogin sends bytes to a server that has users: none of them makes anybody logged in.
func FuzzLogin(f *testing.F) {
	fx := start(f, func(o *Options) { o.FrameTimeout, o.loginDelay = 100*time.Millisecond, time.Nanosecond })
	fx.users()
	shake := func(version int16, mechanism string) []byte {
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Version, req.Mechanism = version, mechanism
		return frame(req, 1)
	}
	token := func(token string) []byte {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = 2, []byte(token)
		return frame(req, 2)
	}
	for _, m := range mechanisms {
		f.Add(append(shake(1, m), token("n,,n=dev,r=abc")...))
		f.Add(append(shake(1, m), token("\x00dev\x00x")...))
		f.Add(append(shake(0, m), "\x00\x00\x00\x0en,,n=dev,r=abc\x00\x00\x00\x00"...))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		near, far := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		c := newConn(fx.server, far, cancel)
		done := make(chan struct{})
		go func() {
			defer close(done)
			buf := make([]byte, 4<<10)
			for {
				if _, err := near.Read(buf); err != nil {
					return
				}
			}
		}()
		go func() {
			_, _ = near.Write(sent) // fails when the server hangs up first
			_ = near.Close()
		}()
		c.serve(ctx)
		<-done
		if c.session.login.in {
			t.Fatalf("%q has logged somebody in", sent)
		}
	})
}
