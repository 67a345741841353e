package amqp

import (
	"testing"
	"time"

	"polylog/core"
	"polylog/core/certs/certstest"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
	"polylog/router/routertest"
)

// addUser makes a user with the password pw-NAME, as whoever may.
func (f *fixture) addUser(name string, tags ...string) {
	f.t.Helper()
	routertest.AddUser(f.t, f.router, name, tags...)
}

// admin is the administrator, once there is one.
func (f *fixture) admin() router.Principal {
	f.t.Helper()
	return routertest.Admin(f.t, f.router)
}

func (f *fixture) grant(user, configure, write, read string) {
	f.t.Helper()
	routertest.Grant(f.t, f.router, user, configure, write, read)
}

// withUsers has an administrator, which has all rights, and alice, who has some.
func (f *fixture) withUsers() {
	f.t.Helper()
	f.addUser("admin", router.TagAdministrator)
	f.addUser("alice")
	f.grant("admin", ".*", ".*", ".*")
	f.grant("alice", "^(c|all)", "^(w|all)", "^(r|all)")
}

// startAs is a connection that has tried to log in.
func (f *fixture) startAs(m *spec.ConnectionStartOk) *client {
	f.t.Helper()
	c := f.greeted()
	c.send(0, m)
	return c
}

// as is a connection of a user with channel 1 open.
func (f *fixture) as(user string) *client {
	f.t.Helper()
	c := f.greeted()
	c.login(plain(user, "pw-"+user))
	c.openChannel(1)
	return c
}

const refusedPlain = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."

// TestUsersLogIn with what they have shown, from anywhere; guest of the time without users does not.
func TestUsersLogIn(t *testing.T) {
	f := start(t, func(o *Options) { o.silence = time.Millisecond })
	f.withUsers()
	f.as("alice")
	for _, m := range []*spec.ConnectionStartOk{
		plain("alice", "wrong"), plain("alice", ""), plain("nobody", "pw-alice"), plain("guest", "guest"),
	} {
		f.startAs(m).told(spec.AccessRefused, refusedPlain, 0)
		m.ClientProperties = nil // it would not understand
		f.startAs(m).gone()
	}
	amqplain := plain("", "")
	amqplain.Mechanism = "AMQPLAIN"
	amqplain.Response = spec.AppendTable(nil, message.Table{
		{Name: "LOGIN", Value: message.String("alice")}, {Name: "PASSWORD", Value: message.String("pw-alice")},
	})[4:]
	recv[*spec.ConnectionTune](f.startAs(amqplain), 0)
	// Nobody is anonymous, and clients are not told that they could be.
	c := f.dial()
	c.write(protocolHeader)
	if m := recv[*spec.ConnectionStart](c, 0); string(m.Mechanisms) != "PLAIN AMQPLAIN" {
		t.Errorf("mechanisms %s", m.Mechanisms)
	}
	anonymous := plain("", "")
	anonymous.Mechanism = "ANONYMOUS"
	c.send(0, anonymous)
	c.told(spec.AccessRefused, "ACCESS_REFUSED - Login was refused using authentication mechanism ANONYMOUS. For details see the broker logfile.", 0)
}

// TestGuesses are refused after many, right ones too.
func TestGuesses(t *testing.T) {
	clock := routertest.NewClock(time.Unix(1e9, 0)) // nothing is forgiven
	r, log := routertest.Start(t, func(o *router.Options) { o.Clock = clock.Now })
	f := serveRouter(t, r, log, nil)
	f.withUsers()
	for range 20 {
		f.startAs(plain("alice", "wrong")).told(spec.AccessRefused, refusedPlain, 0)
	}
	f.startAs(plain("alice", "pw-alice")).told(spec.AccessRefused, refusedPlain, 0)
	if n := f.server.metrics.logins.Load(); n != 21 {
		t.Errorf("%d logins were refused, want 21", n)
	}
	clock.Advance(time.Second)
	f.as("alice")
}

// TestAnonymousUser is who shows nothing, where the broker says so.
func TestAnonymousUser(t *testing.T) {
	r, log := routertest.Start(t, func(o *router.Options) { o.AnonymousUser = "alice" })
	f := serveRouter(t, r, log, nil)
	f.withUsers()
	c := f.dial()
	c.write(protocolHeader)
	if m := recv[*spec.ConnectionStart](c, 0); string(m.Mechanisms) != "PLAIN AMQPLAIN ANONYMOUS" {
		t.Errorf("mechanisms %s", m.Mechanisms)
	}
	m := plain("", "")
	m.Mechanism = "ANONYMOUS"
	c.login(m)
	c.openChannel(1)
	c.declare(1, &spec.QueueDeclare{Queue: "cat"})
	c.send(1, &spec.QueueDeclare{Queue: "dog"})
	c.channelClosed(1, spec.AccessRefused, "ACCESS_REFUSED - configure access to queue 'dog' in vhost '/' refused for user 'alice'", spec.QueueDeclareID)
}

// TestCertifiedUser has to be there, once there are users.
func TestCertifiedUser(t *testing.T) {
	f := start(t, nil)
	addr, with, _ := f.serveTLS(certstest.NewAuthority(t, "ours"))
	f.withUsers()
	c, _ := f.dialTLS(addr, with)
	c.send(0, byCertificate())
	c.told(spec.AccessRefused, "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see the broker logfile.", 0)
	f.addUser("CN=node")
	f.grant("CN=node", "", "", "")
	c, _ = f.dialTLS(addr, with)
	c.login(byCertificate())
}

// TestVirtualHostAccess needs some rights there, be they for nothing.
func TestVirtualHostAccess(t *testing.T) {
	f := start(t, nil)
	f.withUsers()
	if _, err := f.router.CreateNamespace(t.Context(), f.admin(), "tenant", nil); err != nil {
		t.Fatal(err)
	}
	open := func(user, vhost string) *client {
		c := f.startAs(plain(user, "pw-"+user))
		recv[*spec.ConnectionTune](c, 0)
		c.send(0, &spec.ConnectionTuneOk{ChannelMax: 10, FrameMax: 131072})
		c.send(0, &spec.ConnectionOpen{VirtualHost: vhost})
		return c
	}
	open("alice", "tenant").told(spec.NotAllowed, "NOT_ALLOWED - access to vhost 'tenant' refused for user 'alice'", spec.ConnectionOpenID)
	open("admin", "tenant").told(spec.NotAllowed, "NOT_ALLOWED - access to vhost 'tenant' refused for user 'admin'", spec.ConnectionOpenID)
	open("alice", "nope").told(spec.NotAllowed, "NOT_ALLOWED - vhost nope not found", spec.ConnectionOpenID)
	f.addUser("bob")
	open("bob", "/").told(spec.NotAllowed, "NOT_ALLOWED - access to vhost '/' refused for user 'bob'", spec.ConnectionOpenID)
	f.grant("bob", "", "", "")
	recv[*spec.ConnectionOpenOk](open("bob", "/"), 0)
}

// TestRights are asked for each method, in the order and with the texts of rabbit_channel.
func TestRights(t *testing.T) {
	f := start(t, nil)
	f.withUsers()
	admin := f.as("admin")
	for _, name := range []string{"r", "w", "c", "x", "all"} {
		admin.declare(1, &spec.QueueDeclare{Queue: name, Durable: true})
		admin.send(1, &spec.ExchangeDeclare{Exchange: name, Type: "fanout", Durable: true})
		recv[*spec.ExchangeDeclareOk](admin, 1)
	}
	admin.declare(1, &spec.QueueDeclare{Queue: "xs", Durable: true, Arguments: message.Table{{Name: argType, Value: streamType}}})
	admin.send(1, &spec.ExchangeDeclare{Exchange: "xi", Type: "fanout", Internal: true})
	recv[*spec.ExchangeDeclareOk](admin, 1)
	admin.send(1, &spec.ExchangeDeclare{Exchange: "wi", Type: "fanout", Internal: true})
	recv[*spec.ExchangeDeclareOk](admin, 1)

	args := func(name, value string) message.Table {
		return message.Table{{Name: name, Value: message.String(value)}}
	}
	admin.declare(1, &spec.QueueDeclare{Queue: "cd", Arguments: args(argDeadExchange, "x")})
	admin.send(1, &spec.ExchangeDeclare{Exchange: "ca", Type: "direct", Arguments: args(argAlternate, "x")})
	recv[*spec.ExchangeDeclareOk](admin, 1)
	for _, tc := range []struct {
		m    spec.Method
		text string // of the refusal; empty: allowed
	}{
		{&spec.QueueDeclare{Queue: "c2"}, ""},
		{&spec.QueueDeclare{Queue: "q"}, "configure access to queue 'q'"},
		{&spec.QueueDeclare{Queue: "x", Durable: false}, "configure access to queue 'x'"}, // before it is compared
		{&spec.QueueDeclare{Queue: "xs", Durable: true, Arguments: message.Table{{Name: argType, Value: streamType}}}, "configure access to queue 'xs'"},
		{&spec.QueueDeclare{Queue: "r", Passive: true}, ""},
		{&spec.QueueDeclare{Queue: "w", Passive: true}, ""},
		{&spec.QueueDeclare{Queue: "x", Passive: true}, "configure access to queue 'x'"},
		{&spec.QueueDeclare{Queue: "nope", Passive: true}, "configure access to queue 'nope'"}, // nobody learns what there is
		{&spec.QueueDeclare{Queue: "all2", Arguments: args(argDeadExchange, "w")}, ""},
		{&spec.QueueDeclare{Queue: "all3", Arguments: args(argDeadExchange, "")}, "write access to exchange 'amq.default'"},
		{&spec.QueueDeclare{Queue: "c3", Arguments: args(argDeadExchange, "w")}, "read access to queue 'c3'"},
		{&spec.QueueDeclare{Queue: "cd", Arguments: args(argDeadExchange, "x")}, ""}, // it is there
		{&spec.QueueDelete{Queue: "r"}, "configure access to queue 'r'"},
		{&spec.QueueDelete{Queue: "nope"}, "configure access to queue 'nope'"},
		{&spec.QueueDelete{Queue: "xs"}, "configure access to queue 'xs'"},
		{&spec.QueueDelete{Queue: "c2"}, ""},
		{&spec.QueuePurge{Queue: "r"}, ""},
		{&spec.QueuePurge{Queue: "w"}, "read access to queue 'w'"},
		{&spec.QueueBind{Queue: "w", Exchange: "r"}, ""},
		{&spec.QueueBind{Queue: "r", Exchange: "r"}, "write access to queue 'r'"},
		{&spec.QueueBind{Queue: "w", Exchange: "w"}, "read access to exchange 'w'"},
		{&spec.QueueUnbind{Queue: "r", Exchange: "r"}, "write access to queue 'r'"},
		{&spec.ExchangeBind{Destination: "w", Source: "r"}, ""},
		{&spec.ExchangeBind{Destination: "r", Source: "r"}, "write access to exchange 'r'"},
		{&spec.ExchangeUnbind{Destination: "w", Source: "w"}, "read access to exchange 'w'"},
		{&spec.ExchangeDeclare{Exchange: "c4", Type: "direct"}, ""},
		{&spec.ExchangeDeclare{Exchange: "e", Type: "direct"}, "configure access to exchange 'e'"},
		{&spec.ExchangeDeclare{Exchange: "x", Type: "direct"}, "configure access to exchange 'x'"},
		{&spec.ExchangeDeclare{Exchange: "amq.topic", Type: "topic", Durable: true}, "configure access to exchange 'amq.topic'"},
		{&spec.ExchangeDeclare{Exchange: "r", Passive: true}, ""},
		{&spec.ExchangeDeclare{Exchange: "x", Passive: true}, "configure access to exchange 'x'"},
		{&spec.ExchangeDeclare{Exchange: "all4", Type: "direct", Arguments: args(argAlternate, "w")}, ""},
		{&spec.ExchangeDeclare{Exchange: "all5", Type: "direct", Arguments: args(argAlternate, "r")}, "write access to exchange 'r'"},
		{&spec.ExchangeDeclare{Exchange: "c5", Type: "direct", Arguments: args(argAlternate, "w")}, "read access to exchange 'c5'"},
		{&spec.ExchangeDeclare{Exchange: "ca", Type: "direct", Arguments: args(argAlternate, "x")}, ""},
		{&spec.ExchangeDelete{Exchange: "r"}, "configure access to exchange 'r'"},
		{&spec.ExchangeDelete{Exchange: "c4"}, ""},
		{&spec.BasicConsume{Queue: "r"}, ""},
		{&spec.BasicConsume{Queue: "w"}, "read access to queue 'w'"},
		{&spec.BasicConsume{Queue: "nope"}, "read access to queue 'nope'"},
		{&spec.BasicConsume{Queue: "xs"}, "read access to queue 'xs'"},
		{&spec.BasicConsume{Queue: replyQueue, NoAck: true}, ""}, // which is no queue
		{&spec.BasicGet{Queue: "r"}, ""},
		{&spec.BasicGet{Queue: "w"}, "read access to queue 'w'"},
		{&spec.BasicPublish{Exchange: "w"}, ""},
		{&spec.BasicPublish{Exchange: "r"}, "write access to exchange 'r'"},
		{&spec.BasicPublish{Exchange: "nope"}, "write access to exchange 'nope'"},
		{&spec.BasicPublish{Exchange: "xi"}, "write access to exchange 'xi'"},
		{&spec.BasicPublish{RoutingKey: "all"}, "write access to exchange 'amq.default'"},
		{&spec.BasicPublish{RoutingKey: replyPrefix + "1.x"}, "write access to exchange 'amq.default'"},
	} {
		c := f.as("alice")
		publish, is := tc.m.(*spec.BasicPublish)
		if is {
			c.publish(1, publish, &spec.Properties{}, []byte("x"))
			if tc.text == "" { // there is no answer: what follows is
				c.declare(1, &spec.QueueDeclare{Queue: "r", Passive: true})
				continue
			}
		} else {
			c.send(1, tc.m)
		}
		if tc.text == "" {
			if _, closed := c.method(1).(*spec.ChannelClose); closed {
				t.Errorf("%T %+v is refused", tc.m, tc.m)
			}
			continue
		}
		c.channelClosed(1, spec.AccessRefused, "ACCESS_REFUSED - "+tc.text+" in vhost '/' refused for user 'alice'", tc.m.ID())
	}
	c := f.as("alice")
	c.publish(1, &spec.BasicPublish{Exchange: "wi"}, &spec.Properties{}, nil)
	c.channelClosed(1, spec.AccessRefused, "ACCESS_REFUSED - cannot publish to internal exchange 'wi' in vhost '/'", spec.BasicPublishID)
	c = f.as("alice")
	c.publish(1, &spec.BasicPublish{Exchange: "r"}, &spec.Properties{Present: spec.HasUserID | spec.HasExpiration, UserID: "admin", Expiration: "soon"}, nil)
	c.channelClosed(1, spec.AccessRefused, "ACCESS_REFUSED - write access to exchange 'r' in vhost '/' refused for user 'alice'", spec.BasicPublishID)
	c = f.as("alice")
	c.send(1, &spec.TxSelect{})
	recv[*spec.TxSelectOk](c, 1)
	c.publish(1, &spec.BasicPublish{Exchange: "r"}, &spec.Properties{}, nil)
	c.channelClosed(1, spec.AccessRefused, "ACCESS_REFUSED - write access to exchange 'r' in vhost '/' refused for user 'alice'", spec.BasicPublishID)
}

// TestRightsChange holds at once, for a channel that has got from the queue before, too.
func TestRightsChange(t *testing.T) {
	f := start(t, nil)
	f.withUsers()
	c := f.as("alice")
	c.declare(1, &spec.QueueDeclare{Queue: "all"})
	c.send(1, &spec.BasicGet{Queue: "all"})
	recv[*spec.BasicGetEmpty](c, 1)
	f.grant("alice", ".*", ".*", "")
	c.send(1, &spec.BasicGet{Queue: "all"})
	c.channelClosed(1, spec.AccessRefused, "ACCESS_REFUSED - read access to queue 'all' in vhost '/' refused for user 'alice'", spec.BasicGetID)
}

// TestUserID is that of the login, but for those who may speak for others.
func TestUserID(t *testing.T) {
	f := start(t, nil)
	f.withUsers()
	f.addUser("gate", "impersonator")
	f.grant("gate", ".*", ".*", ".*")
	p := &spec.Properties{Present: spec.HasUserID, UserID: "alice"}
	for _, user := range []string{"alice", "gate", "admin"} {
		f.grant(user, ".*", ".*", ".*")
		c := f.as(user)
		c.confirmed(1)
		c.publish(1, &spec.BasicPublish{RoutingKey: "q"}, p, nil)
		if user == "admin" {
			c.channelClosed(1, spec.PreconditionFailed, "PRECONDITION_FAILED - user_id property set to 'alice' but authenticated user was 'admin'", spec.BasicPublishID)
			continue
		}
		recv[*spec.BasicAck](c, 1)
	}
}

// TestUserIDIsChecked: what consumers get as user_id was checked when there are users. What another
// protocol's client has said, as a record's header, stays one.
func TestUserIDIsChecked(t *testing.T) {
	f := start(t, nil)
	said := func(id string) []byte {
		var b core.BatchBuilder
		b.Add(1000, []byte("q"), []byte("m"), core.RecordHeader{Key: message.UserIDHeader, Value: []byte(id)})
		batch, err := b.Build(nil, core.BatchOptions{Producer: core.Nobody})
		if err != nil {
			t.Fatal(err)
		}
		return batch
	}
	append := func(p router.Principal, id string) {
		t.Helper()
		done := make(chan router.Routed, 1)
		f.router.PublishTo(p, router.Address{Exchange: core.TopicName(""), Keys: []string{"q"}}, said(id), func(r router.Routed) { done <- r })
		if r := <-done; r.Err != nil || r.Queues != 1 {
			t.Fatalf("%+v", r)
		}
	}
	got := func(c *client) spec.Properties {
		t.Helper()
		c.send(1, &spec.BasicGet{Queue: "q", NoAck: true})
		recv[*spec.BasicGetOk](c, 1)
		p, _ := c.content(1)
		return p
	}
	c := f.channel()
	c.declare(1, &spec.QueueDeclare{Queue: "q", Durable: true})
	append(router.Principal{}, "admin")
	if p := got(c); p.UserID != "admin" || len(p.Headers) != 0 {
		t.Errorf("nobody is asked who he is: %q, %v", p.UserID, p.Headers)
	}
	append(router.Principal{}, "admin") // and is there when there are users

	f.withUsers()
	f.grant("alice", ".*", ".*", ".*")
	append(f.admin(), "alice")
	c = f.as("alice")
	for _, id := range []string{"admin", "alice"} {
		p := got(c)
		if v := argument(p.Headers, message.UserIDHeader); p.UserID != "" || v == nil || v.Str() != id {
			t.Errorf("%q, %v", p.UserID, p.Headers)
		}
	}
	c.confirmed(1)
	c.publish(1, &spec.BasicPublish{RoutingKey: "q"}, &spec.Properties{Present: spec.HasUserID, UserID: "alice"}, nil)
	recv[*spec.BasicAck](c, 1)
	if p := got(c); p.UserID != "alice" || len(p.Headers) != 0 {
		t.Errorf("%q, %v", p.UserID, p.Headers)
	}
	// An answer by direct reply-to is a publish, too.
	c.publish(1, &spec.BasicPublish{RoutingKey: replyPrefix + "x"}, &spec.Properties{Present: spec.HasUserID, UserID: "admin"}, nil)
	c.channelClosed(1, spec.PreconditionFailed, "PRECONDITION_FAILED - user_id property set to 'admin' but authenticated user was 'alice'", spec.BasicPublishID)
}

// TestUserEnds ends its connections, and nobody else's. What they held is given back.
func TestUserEnds(t *testing.T) {
	f := start(t, nil)
	before := f.channel() // nobody was asked
	f.withUsers()
	before.told(spec.ConnectionForced, "CONNECTION_FORCED - this broker has users now: log in again", 0)

	alice, admin := f.as("alice"), f.as("admin")
	alice.declare(1, &spec.QueueDeclare{Queue: "c", Exclusive: true})
	if _, err := f.router.SetUser(t.Context(), f.admin(), "alice", router.UserChange{Password: new("other")}); err != nil {
		t.Fatal(err)
	}
	alice.told(spec.ConnectionForced, "CONNECTION_FORCED - password of user 'alice' is changed", 0)
	waitFor(t, func() bool {
		_, err := f.router.Queue(core.Name{Namespace: core.DefaultNamespace, Name: "c"})
		return core.KindOf(err) == core.NotFound
	})
	alice = f.startAs(plain("alice", "other")) // does not get as far as a virtual host
	recv[*spec.ConnectionTune](alice, 0)
	if err := f.router.DeleteUser(t.Context(), f.admin(), "alice", false); err != nil {
		t.Fatal(err)
	}
	alice.told(spec.ConnectionForced, "CONNECTION_FORCED - user 'alice' is deleted", 0)
	admin.declare(1, &spec.QueueDeclare{Queue: "q"})
}
