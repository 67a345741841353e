package login

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"polylog/core"
	"polylog/router/state"
)

const (
	// Iterations are those of new credentials. SCRAM's clients have to do them, too.
	Iterations = 8192
	saltBytes  = 16
	// MaxPassword is the length of the longest password, in bytes.
	MaxPassword = 1024
)

// Credentials are what a password is verified by from now on, one for each mechanism. The password
// counts byte by byte, without SASLprep: so do Kafka's clients and broker. The error is of kind
// Invalid.
func Credentials(password string) ([]state.Credential, error) {
	if password == "" || len(password) > MaxPassword {
		return nil, core.E(core.Invalid, "a password of %d bytes, want 1 to %d", len(password), MaxPassword)
	}
	all := make([]state.Credential, 0, 2)
	for _, m := range []state.ScramMechanism{state.ScramSHA256, state.ScramSHA512} {
		salt := make([]byte, saltBytes)
		_, _ = rand.Read(salt) // never fails
		c, err := derive(password, m, salt, Iterations)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// FromSalted makes credentials of a password that a client has salted: Hi(password, salt,
// iterations) of RFC 5802, section 3.
func FromSalted(m state.ScramMechanism, salt []byte, iterations int, salted []byte) state.Credential {
	client := mac(m, salted, "Client Key")
	stored := hashOf(m)()
	stored.Write(client)
	return state.Credential{
		Mechanism: m, Iterations: iterations, Salt: salt,
		StoredKey: stored.Sum(nil), ServerKey: mac(m, salted, "Server Key"),
	}
}

func derive(password string, m state.ScramMechanism, salt []byte, iterations int) (state.Credential, error) {
	salted, err := pbkdf2.Key(hashOf(m), password, salt, iterations, m.Size())
	if err != nil {
		return state.Credential{}, core.E(core.Internal, "derive a key of a password: %v", err)
	}
	return FromSalted(m, salt, iterations, salted), nil
}

func hashOf(m state.ScramMechanism) func() hash.Hash {
	if m == state.ScramSHA512 {
		return sha512.New
	}
	return sha256.New
}

func mac(m state.ScramMechanism, key []byte, text string) []byte {
	h := hmac.New(hashOf(m), key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Verifier verifies passwords. It is safe for concurrent use.
type Verifier struct {
	key     [32]byte // of this process
	nobody  state.Credential
	working *semaphore.Weighted

	mu    sync.Mutex
	right map[string]right // by user; guarded by mu
}

// right is the password that was right.
type right struct {
	login core.LogIndex // of the user then
	mac   [32]byte
}

const (
	// maxRight bounds what is remembered; beyond it something is forgotten.
	maxRight = 100_000
	// maxWait is for how long a verification waits for its turn.
	maxWait = 5 * time.Second
)

// NewVerifier makes a Verifier that remembers nothing.
func NewVerifier() *Verifier {
	v := &Verifier{right: map[string]right{}, working: semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2)))}
	_, _ = rand.Read(v.key[:])
	v.nobody = v.fake("", state.ScramSHA256)
	return v
}

// Verify reports whether a password is a user's; of nobody (nil) none is, which takes as long. The
// error is of kind Unavailable where too many passwords are being verified already.
func (v *Verifier) Verify(ctx context.Context, u *state.User, password string) (bool, error) {
	if len(password) > MaxPassword {
		return false, nil
	}
	var m [32]byte
	if u != nil {
		m = v.macOf(u.Name, password)
		v.mu.Lock()
		known, ok := v.right[u.Name]
		v.mu.Unlock()
		if ok && known.login == u.Login && hmac.Equal(known.mac[:], m[:]) {
			return true, nil
		}
	}
	c := &v.nobody
	if u != nil && len(u.Credentials) > 0 {
		c = &u.Credentials[0]
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if v.working.Acquire(ctx, 1) != nil {
		return false, core.E(core.Unavailable, "too many passwords are being verified")
	}
	got, err := derive(password, c.Mechanism, c.Salt, c.Iterations)
	v.working.Release(1)
	if err != nil || !hmac.Equal(got.StoredKey, c.StoredKey) || c == &v.nobody {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.right) >= maxRight {
		for name := range v.right { // any one
			delete(v.right, name)
			break
		}
	}
	v.right[u.Name] = right{u.Login, m}
	return true, nil
}

// Forget forgets the passwords of those users that are gone, or have another one now.
func (v *Verifier) Forget(find func(name string) *state.User) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, r := range v.right {
		if u := find(name); u == nil || u.Login != r.login {
			delete(v.right, name)
		}
	}
}

func (v *Verifier) macOf(user, password string) (m [32]byte) {
	h := hmac.New(sha256.New, v.key[:])
	h.Write([]byte(user))
	h.Write([]byte{0}) // in no name
	h.Write([]byte(password))
	h.Sum(m[:0])
	return m
}

// fake is the credential of a user that there is not: the same one each time, as a real one's would be.
func (v *Verifier) fake(user string, m state.ScramMechanism) state.Credential {
	h := hmac.New(sha512.New, v.key[:])
	h.Write([]byte{0, byte(m)})
	h.Write([]byte(user))
	sum := h.Sum(nil)
	return state.Credential{Mechanism: m, Iterations: Iterations, Salt: sum[:saltBytes], StoredKey: v.random(m), ServerKey: v.random(m)}
}

func (v *Verifier) random(m state.ScramMechanism) []byte {
	b := make([]byte, m.Size())
	_, _ = rand.Read(b)
	return b
}
