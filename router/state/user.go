package state

import (
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"polylog/core"
	"polylog/core/wire"
)

// User is somebody who can log in. Users that have been given out do not change.
type User struct {
	Name    string
	Created int64 // ms
	// Login is the log index of the last change of the credentials: whoever has logged in under
	// another one has to do it again.
	Login       core.LogIndex
	Tags        []string          // sorted
	Credentials []Credential      // by mechanism; none: it has no password
	Rights      map[string]Rights // by namespace
}

// The tags that mean something. There may be others.
const (
	TagAdministrator = "administrator"
	TagMonitoring    = "monitoring"
	TagPolicymaker   = "policymaker"
	TagManagement    = "management"
)

// HasTag reports whether the user has a tag.
func (u *User) HasTag(tag string) bool { return slices.Contains(u.Tags, tag) }

// governs reports whether the user can make other users: it can log in with a password, and may.
func (u *User) governs() bool { return u.HasTag(TagAdministrator) && len(u.Credentials) > 0 }

// ScramMechanism is a hash that SCRAM is used with (RFC 5802, 7677). The numbers are Kafka's.
type ScramMechanism uint8

// The mechanisms.
const (
	ScramSHA256 ScramMechanism = 1
	ScramSHA512 ScramMechanism = 2
)

// Size is the length of the mechanism's keys, in bytes; 0 where there is no such mechanism.
func (m ScramMechanism) Size() int {
	switch m {
	case ScramSHA256:
		return sha256.Size
	case ScramSHA512:
		return sha512.Size
	}
	return 0
}

// Credential is what a password is verified by; RFC 5802, section 3, has the names.
type Credential struct {
	Mechanism  ScramMechanism
	Iterations int
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
}

// Bounds of credentials. Kafka has the same for iterations.
const (
	MinIterations = 4096
	MaxIterations = 16384
	maxSalt       = 256
)

func (c *Credential) check() error {
	size := c.Mechanism.Size()
	switch {
	case size == 0:
		return core.E(core.Invalid, "there is no SCRAM mechanism %d", c.Mechanism)
	case c.Iterations < MinIterations || c.Iterations > MaxIterations:
		return core.E(core.Invalid, "%d iterations, want %d to %d", c.Iterations, MinIterations, MaxIterations)
	case len(c.Salt) == 0 || len(c.Salt) > maxSalt:
		return core.E(core.Invalid, "a salt of %d bytes, want 1 to %d", len(c.Salt), maxSalt)
	case len(c.StoredKey) != size || len(c.ServerKey) != size:
		return core.E(core.Invalid, "keys of %d and %d bytes, want %d", len(c.StoredKey), len(c.ServerKey), size)
	}
	return nil
}

// A credential: mechanism byte, iterations uvarint, salt, stored key, server key.
func appendCredentials(b []byte, all []Credential) []byte {
	b = wire.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		c := &all[i]
		b = wire.AppendUvarint(append(b, byte(c.Mechanism)), uint64(c.Iterations))
		b = wire.AppendBytes(wire.AppendBytes(wire.AppendBytes(b, c.Salt), c.StoredKey), c.ServerKey)
	}
	return b
}

func readCredentials(r *wire.Reader) (all []Credential) {
	for range r.Count(5) {
		c := Credential{Mechanism: ScramMechanism(r.Byte()), Iterations: int(int32(r.Uvarint()))}
		c.Salt, c.StoredKey, c.ServerKey = slices.Clone(r.Bytes()), slices.Clone(r.Bytes()), slices.Clone(r.Bytes())
		all = append(all, c)
	}
	return all
}

// Rights are what a user may do in a namespace: three regular expressions on the names of queues,
// exchanges, topics and groups, as RabbitMQ has them. An empty one matches nothing.
type Rights struct{ Configure, Write, Read Expression }

// Expression is a regular expression that is compiled when it is needed first. It need not match
// from the first character to the last.
type Expression struct {
	text     string
	compiled *atomic.Pointer[regexp.Regexp] // nil where no expression is needed to know
}

// maxExpression is in bytes.
const maxExpression = 1 << 10

// checkExpression is what Apply asks of an expression. The error is of kind Invalid.
func checkExpression(text string) error {
	if len(text) > maxExpression {
		return core.E(core.Invalid, "an expression of %d bytes, at most %d are allowed", len(text), maxExpression)
	}
	return nil
}

// expression is one of any text.
func expression(text string) Expression {
	switch text {
	case "", "^$", ".*", "^.*$":
		return Expression{text: text}
	}
	return Expression{text, new(atomic.Pointer[regexp.Regexp])}
}

// compiles is why a node cannot compile the expression.
func (e Expression) compiles() error {
	if e.compiled == nil {
		return nil
	}
	_, err := compile(e.text)
	return err
}

// String is the expression as it was given.
func (e Expression) String() string { return e.text }

// Matches reports whether the expression has a name. It does not allocate, but for the first time.
func (e Expression) Matches(name string) bool {
	switch {
	case e.compiled != nil:
	case e.text == "":
		return false
	case e.text == "^$":
		return name == ""
	default: // everything
		return true
	}
	re := e.compiled.Load()
	if re == nil {
		re, _ = compilePattern(e.text)
		e.compiled.Store(re)
	}
	return re.MatchString(name)
}

// Limits of users.
const (
	maxUsers         = 100_000
	maxUserName      = 255 // bytes
	maxTags          = 16
	maxTag           = 64        // bytes
	maxUserRights    = 1000      // namespaces of one user
	maxRightsOfUsers = 1_000_000 // of all users together
)

func checkUserName(name string) error {
	switch {
	case name == "" || len(name) > maxUserName:
		return core.E(core.Invalid, "a user's name of %d bytes, want 1 to %d", len(name), maxUserName)
	case !utf8.ValidString(name):
		return core.E(core.Invalid, "a user's name is not UTF-8")
	case strings.Contains(name, ":"):
		return core.E(core.Invalid, "user name %q has a colon, at which HTTP's Basic ends it", name)
	case hasControl(name):
		return core.E(core.Invalid, "user name %q has a control character", name)
	}
	return nil
}

func checkTags(tags []string) error {
	if len(tags) > maxTags {
		return core.E(core.Invalid, "%d tags, at most %d are allowed", len(tags), maxTags)
	}
	for _, t := range tags {
		if t == "" || len(t) > maxTag || !utf8.ValidString(t) || hasControl(t) {
			return core.E(core.Invalid, "tag %.80q: want 1 to %d bytes of text", t, maxTag)
		}
	}
	return nil
}

func hasControl(s string) bool {
	return slices.ContainsFunc([]byte(s), func(c byte) bool { return c < ' ' || c == 0x7f })
}

func userKey(name string) []byte { return append([]byte{prefixUser, 'u'}, name...) }

func rightsPrefix(namespace string) []byte {
	return wire.AppendString([]byte{prefixUser, 'r'}, namespace)
}

func rightsKey(namespace, user string) []byte { return append(rightsPrefix(namespace), user...) }

// A user's value: version byte, created varint, login uvarint, tags, credentials.
func (u *User) encode() []byte {
	b := wire.AppendVarint([]byte{valueVersion}, u.Created)
	b = appendStrings(wire.AppendUvarint(b, uint64(u.Login)), u.Tags)
	return appendCredentials(b, u.Credentials)
}

func decodeUser(name string, v []byte) (*User, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "user"); err != nil {
		return nil, err
	}
	u := &User{Name: name, Created: r.Varint(), Login: core.LogIndex(r.Uvarint()), Tags: readStrings(&r), Credentials: readCredentials(&r)}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "user %q: %v", name, err)
	}
	return u, nil
}

// The value of rights: version byte, the three expressions.
func (g *Rights) encode() []byte {
	return wire.AppendString(wire.AppendString(wire.AppendString([]byte{valueVersion}, g.Configure.text), g.Write.text), g.Read.text)
}

func decodeRights(v []byte) (Rights, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "rights"); err != nil {
		return Rights{}, err
	}
	g := Rights{expression(r.String()), expression(r.String()), expression(r.String())}
	return g, r.Close()
}

func appendStrings(b []byte, all []string) []byte {
	b = wire.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = wire.AppendString(b, s)
	}
	return b
}

func readStrings(r *wire.Reader) (all []string) {
	for range r.Count(1) {
		all = append(all, r.String())
	}
	return all
}

// users are all users: as of the last applied command for the applier, and as of the last batch for
// everybody else.
type users struct {
	all     map[string]*User // the applier's
	rights  int              // of all of them
	rulers  int              // that govern
	changed []string         // not yet in view

	view struct {
		sync.RWMutex
		all map[string]*User
	}
	number   atomic.Int64  // of view.all
	had      atomic.Bool   // there was one since the state was opened
	revision atomic.Uint64 // of view.all
}

// replace puts is where was stood; either may be nil.
func (us *users) replace(was, is *User) {
	if was != nil {
		us.count(was, -1)
		delete(us.all, was.Name)
		us.changed = append(us.changed, was.Name)
	}
	if is != nil {
		us.count(is, 1)
		us.all[is.Name] = is
		us.changed = append(us.changed, is.Name)
	}
}

func (us *users) count(u *User, sign int) {
	us.rights += sign * len(u.Rights)
	if u.governs() {
		us.rulers += sign
	}
}

// publishUsers shows readers what this batch has changed.
func (s *State) publishUsers() {
	us := &s.users
	if len(us.changed) == 0 {
		return
	}
	us.view.Lock()
	for _, name := range us.changed {
		if u := us.all[name]; u != nil {
			us.view.all[name] = u
		} else {
			delete(us.view.all, name)
		}
	}
	us.countView()
	us.revision.Add(1)
	us.view.Unlock()
	us.changed = us.changed[:0]
	if fn := s.onUsers.Load(); fn != nil {
		(*fn)()
	}
}

// countView is called when view.all has changed.
func (us *users) countView() {
	us.number.Store(int64(len(us.view.all)))
	if len(us.view.all) > 0 {
		us.had.Store(true)
	}
}

// OnUsers has fn called after each applied batch that changed users, once readers see that. It
// runs on the applier's goroutine and must not block.
func (s *State) OnUsers(fn func()) { s.onUsers.Store(&fn) }

// HasUsers reports whether there is any user.
func (s *State) HasUsers() bool { return s.users.number.Load() > 0 }

// HadUsers reports whether there was any user since the state was opened.
func (s *State) HadUsers() bool { return s.users.had.Load() }

// UsersRevision counts the changes of users that readers see.
func (s *State) UsersRevision() uint64 { return s.users.revision.Load() }

// User finds a user; nil when there is none.
func (s *State) User(name string) *User {
	us := &s.users
	us.view.RLock()
	defer us.view.RUnlock()
	return us.view.all[name]
}

// Users are all users, by name.
func (s *State) Users() []*User {
	us := &s.users
	us.view.RLock()
	all := slices.Collect(maps.Values(us.view.all))
	us.view.RUnlock()
	slices.SortFunc(all, func(a, b *User) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (s *State) loadUsers() error {
	us := &s.users
	us.all, us.view.all = map[string]*User{}, map[string]*User{}
	var bad error
	prefix := userKey("")
	err := s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		var u *User
		if u, bad = decodeUser(string(k[len(prefix):]), v); bad == nil {
			us.all[u.Name] = u
		}
		return bad == nil
	})
	if err = cmp.Or(err, bad); err != nil {
		return err
	}
	prefix = []byte{prefixUser, 'r'}
	err = s.store.Scan(prefix, after(prefix), func(k, v []byte) bool {
		r := wire.NewReader(k[len(prefix):])
		namespace := r.String()
		u := us.all[string(r.Rest())]
		var g Rights
		if g, bad = decodeRights(v); bad == nil && (r.Err() != nil || u == nil) {
			bad = core.E(core.Corrupt, "rights %x are nobody's", k)
		}
		if bad != nil {
			return false
		}
		if u.Rights == nil {
			u.Rights = map[string]Rights{}
		}
		u.Rights[namespace] = g
		return true
	})
	for name, u := range us.all {
		us.view.all[name] = u
		us.count(u, 1)
	}
	us.countView()
	us.revision.Store(1)
	return cmp.Or(err, bad)
}
