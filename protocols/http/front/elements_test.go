package front

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMoreThan(t *testing.T) {
	for _, test := range []struct {
		text        string
		most, depth int
		want        bool
	}{
		{`{"messages":[1,2,3]}`, 2, 2, false},
		{`{"messages":[1,2,3,4]}`, 2, 2, true},
		{`[1,2,3,4]`, 2, 1, true},
		{`{"messages":[[1,2,3,4,5],[1,2]]}`, 2, 2, false},
		{`{"a":[1,2],"b":[1,2]}`, 2, 2, true},
		{`[",,,,,","\\",",,,"]`, 2, 1, false},
		{`["\",,,,","\\\",,,"]`, 2, 1, false},
		{`[{},{},{},{}]`, 2, 1, true},
		{`,,,`, 2, 1, true},
		{`"\`, 0, 1, false},
		{``, 0, 1, false},
	} {
		if got := MoreThan([]byte(test.text), test.most, test.depth); got != test.want {
			t.Errorf("%s: %v", test.text, got)
		}
	}
}

// What a decoder finds more elements in than there may be commas is never passed.
func FuzzMoreThan(f *testing.F) {
	f.Add([]byte(`[1,"\",[]{,}",[2,3],{"a":4}]`))
	f.Add([]byte(`["` + strings.Repeat(`\\`, 3) + `",1,2,3,4]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var all []json.RawMessage
		if json.Unmarshal(b, &all) != nil {
			return
		}
		for most := range 5 {
			if got, want := MoreThan(b, most, 1), len(all) > most+1; got != want {
				t.Errorf("%s: %v with %d elements, more than %d commas", b, got, len(all), most)
			}
		}
	})
}
