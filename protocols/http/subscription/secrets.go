package subscription

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"polylog/core"
)

// Secrets are what a push subscription keeps to itself.
type Secrets struct {
	Signing []Secret          `json:"signing,omitempty"` // the newest first
	Headers map[string]string `json:"headers,omitempty"` // of each request
}

// Secret signs requests: Standard Webhooks 1.0, "Signature scheme". The prefix says how:
// whsec_ for HMAC-SHA256, whsk_ for ed25519.
type Secret struct {
	Key   string `json:"key"`
	Until int64  `json:"until,omitempty"` // ms; 0: for ever
}

// Prefixes of secrets, and of the public part of one.
const (
	symmetric = "whsec_"
	private   = "whsk_"
	public    = "whpk_"
)

// Bounds of secrets.
const (
	minSecret  = 24 // bytes
	maxSecret  = 64
	MaxSecrets = 4
	// KeepSecret is how long a secret that was replaced goes on signing, where nothing is said.
	KeepSecret = 24 * time.Hour
	// MaxKeepSecret bounds it.
	MaxKeepSecret = 30 * 24 * time.Hour
)

// NewSecret makes one for HMAC-SHA256.
func NewSecret() Secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return Secret{Key: symmetric + base64.StdEncoding.EncodeToString(key)}
}

// CheckSecret is why a text is no secret, or nil. The error does not show it.
func CheckSecret(text string) error {
	key, asymmetric, err := decodeSecret(text)
	switch {
	case err != nil:
		return err
	case asymmetric && len(key) != ed25519.SeedSize && len(key) != ed25519.PrivateKeySize:
		return invalid("a secret that begins with %s has %d bytes, want %d or %d", private, len(key), ed25519.SeedSize, ed25519.PrivateKeySize)
	case !asymmetric && (len(key) < minSecret || len(key) > maxSecret):
		return invalid("a secret has %d bytes, want %d to %d", len(key), minSecret, maxSecret)
	}
	return nil
}

func decodeSecret(text string) (key []byte, asymmetric bool, err error) {
	rest, asymmetric := strings.CutPrefix(text, private)
	if !asymmetric {
		var ok bool
		if rest, ok = strings.CutPrefix(text, symmetric); !ok {
			return nil, false, invalid("a secret begins with %s or %s", symmetric, private)
		}
	}
	if key, err = base64.StdEncoding.DecodeString(rest); err != nil {
		return nil, false, invalid("a secret has base64 after its prefix: %v", err)
	}
	return key, asymmetric, nil
}

// Sign is the signature of what is signed; "" for a key that is none.
func (s *Secret) Sign(signed []byte) string {
	key, asymmetric, err := decodeSecret(s.Key)
	switch {
	case err != nil:
		return ""
	case !asymmetric:
		mac := hmac.New(sha256.New, key)
		mac.Write(signed)
		return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	case len(key) == ed25519.SeedSize:
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(key), signed))
	case len(key) == ed25519.PrivateKeySize:
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed))
	}
	return ""
}

// SecretInfo is what can be known of a secret.
type SecretInfo struct {
	// Hint is 16 bits of a hash of it, to tell one from another; too few to guess it by.
	Hint      string     `json:"hint"`
	PublicKey string     `json:"publicKey,omitempty"` // of ed25519
	Until     *time.Time `json:"until,omitempty"`     // it was replaced
}

// Info is what can be known of it.
func (s *Secret) Info() SecretInfo {
	sum := sha256.Sum256([]byte("hint:" + s.Key))
	i := SecretInfo{Hint: base64.RawURLEncoding.EncodeToString(sum[:2])}
	if s.Until > 0 {
		i.Until = new(time.UnixMilli(s.Until).UTC())
	}
	key, asymmetric, err := decodeSecret(s.Key)
	if err == nil && asymmetric {
		if len(key) == ed25519.SeedSize {
			key = ed25519.NewKeyFromSeed(key)
		}
		i.PublicKey = public + base64.StdEncoding.EncodeToString(key[ed25519.SeedSize:])
	}
	return i
}

// Current are the secrets that sign at a time.
func (s *Secrets) Current(now int64) []Secret {
	return slices.DeleteFunc(slices.Clone(s.Signing), func(x Secret) bool { return x.Until > 0 && x.Until <= now })
}

// Rotate puts a new secret before the others, which go on until then. It is refused (Conflict)
// where they would be more than MaxSecrets: who was promised that one goes on must not be
// surprised.
func (s *Secrets) Rotate(next Secret, now, until int64) error {
	old := s.Current(now)
	for i := range old {
		if old[i].Until == 0 || old[i].Until > until {
			old[i].Until = until
		}
	}
	old = slices.DeleteFunc(old, func(x Secret) bool { return x.Until <= now || x.Key == next.Key })
	if len(old) >= MaxSecrets {
		return core.E(core.Conflict, "%d secrets sign already, at most %d can: wait for the end of one, or say keepMs 0", len(old), MaxSecrets)
	}
	s.Signing = append([]Secret{next}, old...)
	return nil
}
