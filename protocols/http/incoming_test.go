package httpd

import "testing"

// TestTextValues: a JSON string's value is its text, whether or not there is anything in it to decode.
func TestTextValues(t *testing.T) {
	for text, want := range map[string]string{
		`"plain"`:         "plain",
		`""`:              "",
		`"two words, ä€"`: "two words, ä€",
		`"a\nb\u00e4\""`:  "a\nbä\"",
		"\"a\xffb\"":      "a�b", // what is no UTF-8 is no JSON; encoding/json takes it as this
	} {
		ms, err := fromJSON([]byte(`{"messages":[{"value":`+text+`},{"value":"behind"}]}`), 0)
		if err != nil || len(ms) != 2 || ms[0].err != nil {
			t.Errorf("%s: %v, %v", text, ms, err)
			continue
		}
		if got := ms[0].Value; got == nil || string(got) != want || string(ms[1].Value) != "behind" {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}
