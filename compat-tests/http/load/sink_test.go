package load

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"
)

// TestVerify: the signature of Standard Webhooks' own example is right, and nothing else is.
func TestVerify(t *testing.T) {
	const id, at, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", `{"test": 2432232314}`
	secret, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	s := &Sink{secret: secret}
	good := http.Header{}
	good.Set("webhook-timestamp", at)
	good.Set("webhook-signature", "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	now := time.Unix(1614265330, 0).Add(time.Minute)
	if err := s.verify(id, good, []byte(body), now); err != nil {
		t.Error(err)
	}
	other := good.Clone()
	other.Set("webhook-signature", "v1,AAAA")
	for name, err := range map[string]error{
		"another id":      s.verify("msg_x", good, []byte(body), now),
		"another body":    s.verify(id, good, []byte(body+" "), now),
		"too late":        s.verify(id, good, []byte(body), now.Add(5*time.Minute)),
		"none that fits":  s.verify(id, other, []byte(body), now),
		"no time, no key": s.verify(id, http.Header{}, []byte(body), now),
	} {
		if err == nil {
			t.Errorf("%s is believed", name)
		}
	}
}
