package hook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // a sender may have nothing better
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"testing"
	"time"

	"polylog/protocols/http/front"
	"polylog/protocols/http/subscription"
)

const now = 1_700_000_000_000 // ms

// sign is an HMAC, by whatever digest.
func sign(digest func() hash.Hash, key, signed string) []byte {
	mac := hmac.New(digest, []byte(key))
	mac.Write([]byte(signed))
	return mac.Sum(nil)
}

// believes is the code of the refusal of a request; "" when it is believed.
func believes(t *testing.T, s *Settings, secrets []string, body string, headers map[string]string) string {
	t.Helper()
	s.EnsureDefaults()
	s.Topic = "t"
	if err := s.Check(16 << 20); err != nil {
		t.Fatal(err)
	}
	var keys []subscription.Secret
	for _, one := range secrets {
		if err := s.CheckSecret(one); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, subscription.Secret{Key: one})
	}
	claim, err := s.Claim(keys, func(name string) string { return headers[strings.ToLower(name)] }, now)
	if err == nil {
		err = claim.Verify([]byte(body))
	}
	if p, ok := errors.AsType[*front.Problem](err); ok {
		return p.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

// The example of GitHub's documentation, "Validating webhook deliveries".
func TestGitHub(t *testing.T) {
	const secret, body = "It's a Secret to Everybody", "Hello, World!"
	const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	s := &Settings{Preset: "github"}
	for want, headers := range map[string]map[string]string{
		"":              {"x-hub-signature-256": signature},
		"bad_signature": {"x-hub-signature-256": signature[:len(signature)-1] + "8"},
	} {
		if got := believes(t, s, []string{"another secret", secret}, body, headers); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, signature := range []string{"", " ", "sha256=", "sha256", strings.TrimPrefix(signature, "sha256="), "sha256=zz"} {
		if got := believes(t, s, []string{secret}, body, map[string]string{"x-hub-signature-256": signature}); got != "bad_signature" {
			t.Errorf("%q: %q", signature, got)
		}
	}
	if got := believes(t, s, []string{secret}, body+"x", map[string]string{"x-hub-signature-256": signature}); got != "bad_signature" {
		t.Errorf("another body: %q", got)
	}
	if got := believes(t, s, nil, body, map[string]string{"x-hub-signature-256": signature}); got != "bad_signature" {
		t.Errorf("no secret: %q", got)
	}
}

// As Stripe's documentation has it, "Verify webhook signatures manually".
func TestStripe(t *testing.T) {
	const secret, body = "whsec_test_secret", `{"id":"evt_1","type":"charge.failed"}`
	header := func(at int64, key string) string {
		return fmt.Sprintf("t=%d,v1=%x,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39", at, sign(sha256.New, key, fmt.Sprintf("%d.%s", at, body)))
	}
	for _, c := range []struct{ header, want string }{
		{header(now/1000, secret), ""},
		{header(now/1000-300, secret), ""},
		{"v1=00," + header(now/1000, secret), ""},
		{header(now/1000-301, secret), "bad_timestamp"},
		{header(now/1000+301, secret), "bad_timestamp"},
		{header(now/1000, "another"), "bad_signature"},
		{strings.Replace(header(now/1000, secret), "t=1", "t=x", 1), "bad_timestamp"},
		{"t=9223372036854775807,v1=00", "bad_timestamp"},
		{strings.TrimPrefix(header(now/1000, secret), fmt.Sprintf("t=%d,", now/1000)), "bad_timestamp"},
		{strings.Repeat("v1=00,", 20) + header(now/1000, secret), "bad_signature"},
		{"", "bad_signature"},
	} {
		if got := believes(t, &Settings{Preset: "stripe"}, []string{secret}, body, map[string]string{"stripe-signature": c.header}); got != c.want {
			t.Errorf("%s: %q, want %q", c.header, got, c.want)
		}
	}
	s := Settings{Preset: "stripe"}
	s.EnsureDefaults()
	if id, kind := s.ID.Find(nil, []byte(body)), s.Type.Find(nil, []byte(body)); id != "evt_1" || kind != "charge.failed" {
		t.Errorf("id %q, type %q", id, kind)
	}
}

// Standard Webhooks 1.0: several signatures, both schemes, what is signed.
func TestStandard(t *testing.T) {
	key := strings.Repeat("k", 32)
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(key))
	pair := ed25519.NewKeyFromSeed([]byte(key))
	public := "whpk_" + base64.StdEncoding.EncodeToString(pair[ed25519.SeedSize:])
	at := fmt.Sprint(now / 1000)
	good := "v1," + base64.StdEncoding.EncodeToString(sign(sha256.New, key, "msg_1."+at+".body"))
	asymmetric := "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(pair, []byte("msg_1."+at+".body")))
	for _, c := range []struct{ secret, id, timestamp, signature, want string }{
		{secret, "msg_1", at, good, ""},
		{secret, "msg_1", at, "v1,AAAA v2,xx " + good, ""},
		{public, "msg_1", at, asymmetric, ""},
		{public, "msg_1", at, good, "bad_signature"},
		{secret, "msg_1", at, asymmetric, "bad_signature"},
		{secret, "msg_2", at, good, "bad_signature"},
		{secret, "", at, good, "bad_signature"},
		{secret, "msg_1", "", good, "bad_timestamp"},
		{secret, "msg_1", "1", good, "bad_timestamp"},
		{secret, "msg_1", at, strings.TrimPrefix(good, "v1,"), "bad_signature"},
	} {
		got := believes(t, &Settings{Preset: "standard"}, []string{c.secret}, "body",
			map[string]string{"webhook-id": c.id, "webhook-timestamp": c.timestamp, "webhook-signature": c.signature})
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The generic preset can say what others do: Slack's and Shopify's ways here.
func TestGeneric(t *testing.T) {
	at := fmt.Sprint(now / 1000)
	slack := &Settings{
		Preset: "hmac", SignatureHeader: "X-Slack-Signature", SignaturePrefix: "v0=", Signed: "v0:{timestamp}:{body}",
		TimestampHeader: "X-Slack-Request-Timestamp",
	}
	if got := believes(t, slack, []string{"slack secret"}, "body", map[string]string{
		"x-slack-request-timestamp": at,
		"x-slack-signature":         "v0=" + hex.EncodeToString(sign(sha256.New, "slack secret", "v0:"+at+":body")),
	}); got != "" {
		t.Error(got)
	}
	shopify := &Settings{Preset: "hmac", SignatureHeader: "X-Shopify-Hmac-Sha256", Encoding: "base64"}
	if got := believes(t, shopify, []string{"shopify secret"}, "body", map[string]string{
		"x-shopify-hmac-sha256": base64.StdEncoding.EncodeToString(sign(sha256.New, "shopify secret", "body")),
	}); got != "" {
		t.Error(got)
	}
	old := &Settings{Preset: "hmac", SignatureHeader: "X-Hub-Signature", SignaturePrefix: "sha1=", Algorithm: "sha1"}
	if got := believes(t, old, []string{"an old secret"}, "body", map[string]string{
		"x-hub-signature": "sha1=" + hex.EncodeToString(sign(sha1.New, "an old secret", "body")),
	}); got != "" {
		t.Error(got)
	}
}

func TestCredentials(t *testing.T) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, c := range []struct{ preset, authorization, want string }{
		{"bearer", "Bearer a long token", ""},
		{"bearer", "bearer a long token", ""},
		{"bearer", "Bearer a long toke", "bad_credentials"},
		{"bearer", "a long token", "bad_credentials"},
		{"bearer", "Basic a long token", "bad_credentials"},
		{"bearer", "", "bad_credentials"},
		{"basic", basic("me:a long token"), ""},
		{"basic", basic("you:a long token"), "bad_credentials"},
		{"basic", basic("me:"), "bad_credentials"},
		{"basic", "Basic !", "bad_credentials"},
	} {
		s := &Settings{Preset: c.preset}
		if c.preset == "basic" {
			s.Username = "me"
		}
		if got := believes(t, s, []string{"another one", "a long token"}, "body", map[string]string{"authorization": c.authorization}); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		s    Settings
		want string
	}{
		{Settings{Preset: "github"}, "topic is missing"},
		{Settings{Topic: "t", Preset: "gitlab"}, "preset is"},
		{Settings{Topic: "t", Preset: "github", Algorithm: "sha1"}, "its own way to sign"},
		{Settings{Topic: "t", Preset: "basic"}, "username"},
		{Settings{Topic: "t", Preset: "basic", Username: "a:b"}, "colon"},
		{Settings{Topic: "t", Preset: "bearer", Username: "a"}, "username"},
		{Settings{Topic: "t", Preset: "hmac", Algorithm: "md5"}, "algorithm"},
		{Settings{Topic: "t", Preset: "hmac", Encoding: "x"}, "encoding"},
		{Settings{Topic: "t", Preset: "hmac", Signed: "{timestamp}"}, "{body}"},
		{Settings{Topic: "t", Preset: "hmac", TimestampHeader: "X"}, "timestampHeader"},
		{Settings{Topic: "t", Preset: "hmac", SignatureHeader: "a b"}, "no name of a header"},
		{Settings{Topic: "t", Preset: "github", Headers: []string{"Authorization"}}, "secrets"},
		{Settings{Topic: "t", Preset: "github", ID: "header:Authorization"}, "secrets"},
		{Settings{Topic: "t", Preset: "github", ID: "x"}, "id is"},
		{Settings{Topic: "t", Preset: "github", Key: "json:a"}, "key is"},
		{Settings{Topic: "t", Preset: "github", Key: Place("json:" + strings.Repeat("/a", 9))}, "key is"},
		{Settings{Topic: "t", Preset: "github", MaxBytes: 17 << 20}, "maxBytes"},
		{Settings{Topic: "t", Preset: "github", WindowMs: (31 * 24 * time.Hour).Milliseconds()}, "windowMs"},
		{Settings{Topic: "t", Preset: "github", ToleranceMs: 1}, "toleranceMs"},
	} {
		c.s.EnsureDefaults()
		if err := c.s.Check(16 << 20); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.s, err, c.want)
		}
	}
}

func TestPlaces(t *testing.T) {
	const body = `{"data": {"object": {"customer": "c1", "n": 12345678901234567890, "a/b": true, "no": null, "list": [1]}}}`
	header := func(name string) string { return "of " + name }
	for place, want := range map[Place]string{
		"":                           "",
		"header:X-Id":                "of X-Id",
		"json:/data/object/customer": "c1",
		"json:/data/object/n":        "12345678901234567890",
		"json:/data/object/a~1b":     "true",
		"json:/data/object/no":       "",
		"json:/data/object/list":     "",
		"json:/data/none/customer":   "",
	} {
		if got := place.Find(header, []byte(body)); got != want {
			t.Errorf("%s: %q, want %q", place, got, want)
		}
	}
	if got := Place("json:/id").Find(header, []byte("no JSON")); got != "" {
		t.Errorf("%q", got)
	}
}
