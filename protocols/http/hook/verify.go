package hook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"

	"polylog/protocols/http/front"
	"polylog/protocols/http/subscription"
)

// Claim is what a request says of itself before its body is read.
type Claim struct {
	settings   Settings
	secrets    []subscription.Secret
	id         string
	timestamp  string
	signatures []string // each with its prefix
	proven     bool     // by credentials: there is no signature
}

// Claim reads a request's headers, at a time in ms. What can be refused by them alone is: wrong
// credentials, no signature, a timestamp that is too far from now. settings have their defaults.
func (s *Settings) Claim(secrets []subscription.Secret, header func(string) string, now int64) (*Claim, error) {
	switch s.Preset {
	case "bearer":
		if !s.bearer(secrets, header("Authorization")) {
			return nil, refuse("bad_credentials", "the bearer token is missing or wrong")
		}
		return &Claim{proven: true}, nil
	case "basic":
		if !s.basic(secrets, header("Authorization")) {
			return nil, refuse("bad_credentials", "user name and password are missing or wrong")
		}
		return &Claim{proven: true}, nil
	}
	c := &Claim{settings: *s, secrets: secrets}
	if fixed := presets[s.Preset]; fixed.Signed != "" {
		c.settings.SignatureHeader, c.settings.SignaturePrefix, c.settings.Signed = fixed.SignatureHeader, fixed.SignaturePrefix, fixed.Signed
		c.settings.Algorithm, c.settings.Encoding, c.settings.TimestampHeader = fixed.Algorithm, fixed.Encoding, fixed.TimestampHeader
		c.settings.ID = fixed.ID
	}
	text := header(c.settings.SignatureHeader)
	if text == "" {
		return nil, refuse("bad_signature", "the header "+c.settings.SignatureHeader+" is missing")
	}
	// Standard Webhooks has them apart by spaces, Stripe by commas, with the timestamp among them.
	if c.signatures = strings.Fields(text); s.Preset == "stripe" {
		c.signatures = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		for _, one := range c.signatures {
			if t, ok := strings.CutPrefix(one, "t="); ok {
				c.timestamp = t
			}
		}
	}
	if len(c.signatures) > maxSignatures {
		return nil, refuse("bad_signature", "there are too many signatures")
	}
	if c.settings.TimestampHeader != "" {
		c.timestamp = header(c.settings.TimestampHeader)
	}
	if strings.Contains(c.settings.Signed, "{timestamp}") {
		seconds, err := strconv.ParseInt(c.timestamp, 10, 64)
		if away := now - seconds*1000; err != nil || seconds < 0 || seconds > now || away > s.ToleranceMs || away < -s.ToleranceMs {
			return nil, refuse("bad_timestamp", "the timestamp is missing, or too far from the broker's clock")
		}
	}
	if strings.Contains(c.settings.Signed, "{id}") {
		if c.id = c.settings.ID.Find(header, nil); c.id == "" {
			return nil, refuse("bad_signature", "the id that is signed is missing")
		}
	}
	return c, nil
}

// maxSignatures bounds what is compared for one request.
const maxSignatures = 16

// Proven is true where the headers alone have shown who the sender is: a request without the right
// credentials makes no claim.
func (c *Claim) Proven() bool { return c.proven }

// Verify is why the body is not what its sender sent, or nil.
func (c *Claim) Verify(body []byte) error {
	if c.proven {
		return nil
	}
	signed := c.signed(body)
	good := 0
	for _, secret := range c.secrets {
		good |= c.signedBy(secret.Key, signed)
	}
	if good == 0 {
		return refuse("bad_signature", "no signature is one of this body under a secret of the hook")
	}
	return nil
}

// signed is what is signed.
func (c *Claim) signed(body []byte) []byte {
	before, after, _ := strings.Cut(c.settings.Signed, "{body}")
	fill := strings.NewReplacer("{id}", c.id, "{timestamp}", c.timestamp)
	return append(append([]byte(fill.Replace(before)), body...), fill.Replace(after)...)
}

// public begins public keys of ed25519, and asymmetric their signatures: Standard Webhooks 1.0.
const (
	public     = "whpk_"
	asymmetric = "v1a,"
)

// signedBy is 1 where one of the signatures was made with a secret.
func (c *Claim) signedBy(secret string, signed []byte) (good int) {
	key := []byte(secret)
	if c.settings.Preset == "standard" {
		encoded, isPublic := strings.CutPrefix(secret, public)
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(encoded, "whsec_"))
		switch {
		case err != nil:
			return 0
		case isPublic:
			return c.signedWith(raw, signed)
		}
		key = raw
	}
	mac := hmac.New(algorithms[c.settings.Algorithm], key)
	mac.Write(signed)
	want := mac.Sum(nil)
	for _, one := range c.signatures {
		text, ok := strings.CutPrefix(one, c.settings.SignaturePrefix)
		if sum, err := encodings[c.settings.Encoding](text); ok && err == nil {
			good |= subtle.ConstantTimeCompare(want, sum)
		}
	}
	return good
}

// signedWith is 1 where one of the signatures was made with the private key of a public one.
func (c *Claim) signedWith(key ed25519.PublicKey, signed []byte) int {
	for _, one := range c.signatures {
		text, ok := strings.CutPrefix(one, asymmetric)
		sum, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, signed, sum) {
			return 1
		}
	}
	return 0
}

func checkPublic(key string) error {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return invalid("a public key has base64 of %d bytes after %s", ed25519.PublicKeySize, public)
	}
	return nil
}

// bearer compares the token of an Authorization header.
func (s *Settings) bearer(secrets []subscription.Secret, authorization string) bool {
	token, ok := scheme(authorization, "bearer")
	good := 0
	for _, secret := range secrets {
		good |= same(token, secret.Key)
	}
	return ok && good == 1
}

// basic compares user name and password of an Authorization header: RFC 7617.
func (s *Settings) basic(secrets []subscription.Secret, authorization string) bool {
	text, ok := scheme(authorization, "basic")
	raw, err := base64.StdEncoding.DecodeString(text)
	good := 0
	for _, secret := range secrets {
		good |= same(string(raw), s.Username+":"+secret.Key)
	}
	return ok && err == nil && good == 1
}

// scheme is what follows an authentication scheme, whose name has no case.
func scheme(authorization, name string) (rest string, ok bool) {
	got, rest, ok := strings.Cut(authorization, " ")
	return strings.TrimSpace(rest), ok && strings.EqualFold(got, name)
}

// same is 1 for equal texts. How long it takes tells nothing of them, not even their length.
func same(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}

func refuse(code, detail string) error {
	return &front.Problem{Status: 401, Code: code, Detail: detail}
}
