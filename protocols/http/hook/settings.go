// Package hook is what an address that takes other people's webhooks has to know: whom it
// believes, and what of a request names the message. It decides about headers and bytes alone;
// it knows neither sockets nor the log.
package hook

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // some senders have nothing better
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"
	"strings"

	"polylog/core"
	"polylog/protocols/http/subscription"
)

// Settings are what its owner says of a hook; all but topic and preset has a value where it is
// left out.
type Settings struct {
	Topic  string `json:"topic"`
	Preset string `json:"preset"` // whose signatures: standard, github, stripe, hmac, bearer, basic

	// Of the preset hmac, whose parts the other signed ones have fixed.
	SignatureHeader string `json:"signatureHeader,omitempty"`
	SignaturePrefix string `json:"signaturePrefix,omitempty"` // before each signature
	Algorithm       string `json:"algorithm,omitempty"`       // sha256, sha1, sha512
	Encoding        string `json:"encoding,omitempty"`        // hex, base64
	// Signed is what is signed: text with {body}, {timestamp} and {id} in it.
	Signed          string `json:"signed,omitempty"`
	TimestampHeader string `json:"timestampHeader,omitempty"`

	Username string `json:"username,omitempty"` // of the preset basic

	// Where the message's id, key and type are: header:NAME, or json:POINTER (RFC 6901) into the
	// body.
	ID   Place `json:"id,omitempty"`
	Key  Place `json:"key,omitempty"`
	Type Place `json:"type,omitempty"`

	Headers     []string `json:"headers,omitempty"`     // of the request that become the message's
	ToleranceMs int64    `json:"toleranceMs,omitempty"` // how far a timestamp may be from now
	WindowMs    int64    `json:"windowMs,omitempty"`    // how long an id is known
	MaxBytes    int      `json:"maxBytes,omitempty"`    // of a body
}

// Bounds and defaults.
const (
	defaultTolerance = 5 * 60 * 1000 // ms
	maxTolerance     = 24 * 3600 * 1000
	// defaultWindow is longer than the schedules of Standard Webhooks, Stripe and GitHub: four days.
	defaultWindow = 4 * 24 * 3600 * 1000
	maxWindow     = 30 * 24 * 3600 * 1000
	defaultBytes  = 1 << 20
	maxHeaders    = 32
	maxName       = 256  // bytes of a header's name, a prefix and the like
	minSecret     = 8    // bytes of a secret that somebody else chose
	maxSecret     = 1024 // bytes
)

// presets are what is fixed for a sender: what its own settings may not say.
var presets = map[string]Settings{
	// Standard Webhooks 1.0, "Verifying signatures".
	"standard": {
		SignatureHeader: "webhook-signature", SignaturePrefix: "v1,", Algorithm: "sha256", Encoding: "base64",
		Signed: "{id}.{timestamp}.{body}", TimestampHeader: "webhook-timestamp", ID: "header:webhook-id", Type: "json:/type",
	},
	"github": {
		SignatureHeader: "X-Hub-Signature-256", SignaturePrefix: "sha256=", Algorithm: "sha256", Encoding: "hex", Signed: "{body}",
		ID: "header:X-GitHub-Delivery", Type: "header:X-GitHub-Event",
	},
	"stripe": {
		SignatureHeader: "Stripe-Signature", SignaturePrefix: "v1=", Algorithm: "sha256", Encoding: "hex", Signed: "{timestamp}.{body}",
		ID: "json:/id", Type: "json:/type",
	},
	"hmac":   {},
	"bearer": {},
	"basic":  {},
}

// The digests and encodings of signatures.
var (
	algorithms = map[string]func() hash.Hash{"sha256": sha256.New, "sha1": sha1.New, "sha512": sha512.New}
	encodings  = map[string]func(string) ([]byte, error){"hex": hex.DecodeString, "base64": base64.StdEncoding.DecodeString}
)

// EnsureDefaults says what was left out.
func (s *Settings) EnsureDefaults() {
	fixed := presets[s.Preset]
	for _, one := range []struct {
		at  *Place
		def Place
	}{{&s.ID, fixed.ID}, {&s.Type, fixed.Type}} {
		if *one.at == "" {
			*one.at = one.def
		}
	}
	if s.ID == "" {
		s.ID = "header:Idempotency-Key"
	}
	if s.Preset == "hmac" {
		s.SignatureHeader = orDefault(s.SignatureHeader, "X-Signature")
		s.Algorithm = orDefault(s.Algorithm, "sha256")
		s.Encoding = orDefault(s.Encoding, "hex")
		s.Signed = orDefault(s.Signed, "{body}")
	}
	s.ToleranceMs = orDefault(s.ToleranceMs, defaultTolerance)
	s.WindowMs = orDefault(s.WindowMs, defaultWindow)
	s.MaxBytes = orDefault(s.MaxBytes, defaultBytes)
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Check is why settings with their defaults are none, or nil. maxBody is the most that a
// request may have.
func (s *Settings) Check(maxBody int) error {
	if _, ok := presets[s.Preset]; !ok {
		return invalid("preset is %.20q, want standard, github, stripe, hmac, bearer or basic", s.Preset)
	}
	signing := s.SignatureHeader + s.SignaturePrefix + s.Algorithm + s.Encoding + s.Signed + s.TimestampHeader
	switch {
	case s.Topic == "":
		return invalid("topic is missing: where messages go")
	case s.Preset != "hmac" && signing != "":
		return invalid("preset %s has its own way to sign: signatureHeader, signaturePrefix, algorithm, encoding, signed and timestampHeader are of preset hmac", s.Preset)
	case (s.Preset == "basic") != (s.Username != ""):
		return invalid("username is of preset basic, which needs it")
	case strings.Contains(s.Username, ":"):
		return invalid("username has a colon")
	case s.ToleranceMs < 1000 || s.ToleranceMs > maxTolerance:
		return invalid("toleranceMs is %d, want 1000 to %d", s.ToleranceMs, maxTolerance)
	case s.WindowMs < 1000 || s.WindowMs > maxWindow:
		return invalid("windowMs is %d, want 1000 to %d", s.WindowMs, int64(maxWindow))
	case s.MaxBytes < 1 || s.MaxBytes > maxBody:
		return invalid("maxBytes is %d, want 1 to %d", s.MaxBytes, maxBody)
	case len(s.Headers) > maxHeaders:
		return invalid("%d headers, at most %d are kept", len(s.Headers), maxHeaders)
	case len(s.SignaturePrefix) > maxName || len(s.Signed) > maxName || len(s.Username) > maxName:
		return invalid("signaturePrefix, signed and username have at most %d bytes each", maxName)
	}
	for _, name := range append(slices.Clone(s.Headers), s.SignatureHeader, s.TimestampHeader) {
		if name != "" && !token(name) {
			return invalid("%.40q is no name of a header", name)
		}
	}
	for _, name := range s.Headers {
		if slices.Contains(private, strings.ToLower(name)) {
			return invalid("the header %s would tell secrets to whoever reads the topic", name)
		}
	}
	for what, place := range map[string]Place{"id": s.ID, "key": s.Key, "type": s.Type} {
		if !place.valid() {
			return invalid("%s is %.40q, want header:NAME or json:/POINTER", what, place)
		}
		if name, ok := strings.CutPrefix(strings.ToLower(string(place)), "header:"); ok && slices.Contains(private, name) {
			return invalid("%s: the header %s would tell secrets to whoever reads the topic", what, name)
		}
	}
	if s.Preset == "hmac" {
		return s.checkSigning()
	}
	return nil
}

// private are headers with what authenticates.
var private = []string{"authorization", "cookie", "proxy-authorization", "x-api-key", "x-auth-token", "x-gitlab-token"}

func (s *Settings) checkSigning() error {
	switch {
	case algorithms[s.Algorithm] == nil:
		return invalid("algorithm is %.20q, want sha256, sha1 or sha512", s.Algorithm)
	case encodings[s.Encoding] == nil:
		return invalid("encoding is %.20q, want hex or base64", s.Encoding)
	case strings.Count(s.Signed, "{body}") != 1:
		return invalid("signed is %.40q, want {body} in it, once", s.Signed)
	case strings.Contains(s.Signed, "{timestamp}") != (s.TimestampHeader != ""):
		return invalid("timestampHeader goes with {timestamp} in signed")
	}
	return nil
}

// CheckSecret is why a text is no secret for the preset, or nil. The error does not show it.
func (s *Settings) CheckSecret(text string) error {
	if s.Preset == "standard" {
		if key, ok := strings.CutPrefix(text, public); ok {
			return checkPublic(key)
		}
		if strings.HasPrefix(text, "whsk_") {
			return invalid("a private key is the sender's affair: say its public one, which begins with %s", public)
		}
		return subscription.CheckSecret(text)
	}
	if n := len(text); n < minSecret || n > maxSecret {
		return invalid("a secret has %d bytes, want %d to %d", n, minSecret, maxSecret)
	}
	return nil
}

// NewSecret makes one, where the sender is told it and not the other way round.
func (s *Settings) NewSecret() (subscription.Secret, error) {
	switch s.Preset {
	case "standard":
		return subscription.NewSecret(), nil
	case "stripe":
		return subscription.Secret{}, invalid("secrets is missing: Stripe makes the secret, which begins with whsec_")
	}
	return subscription.Secret{Key: rand.Text() + rand.Text()}, nil
}

// Place is where in a request something is.
type Place string

func (p Place) valid() bool {
	kind, at, ok := strings.Cut(string(p), ":")
	switch {
	case p == "":
		return true
	case !ok || len(at) > maxName:
		return false
	case kind == "header":
		return token(at)
	}
	return kind == "json" && strings.HasPrefix(at, "/") && strings.Count(at, "/") <= maxDepth
}

// maxDepth bounds the parts of a JSON pointer.
const maxDepth = 8

// Find is what is there: text, or a number as it was written; empty where it is not.
func (p Place) Find(header func(string) string, body []byte) string {
	kind, at, _ := strings.Cut(string(p), ":")
	switch kind {
	case "header":
		return header(at)
	case "json":
		return pointed(body, strings.Split(at[1:], "/"))
	}
	return ""
}

// pointed is the scalar that a JSON pointer's parts lead to, through objects.
func pointed(body []byte, parts []string) string {
	for _, part := range parts {
		object := map[string]json.RawMessage{}
		if json.Unmarshal(body, &object) != nil {
			return ""
		}
		body = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	var text string
	switch {
	case len(body) == 0 || body[0] == '{' || body[0] == '[' || string(body) == "null":
		return ""
	case body[0] != '"':
		return string(body)
	case json.Unmarshal(body, &text) != nil:
		return ""
	}
	return text
}

// token reports whether a text can be a header's name: RFC 9110, 5.6.2.
func token(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

func invalid(format string, args ...any) error { return core.E(core.Invalid, format, args...) }
