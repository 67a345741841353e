package kafkarest

import (
	"encoding/json"
	"testing"
)

// FuzzRecords holds that no stream of records makes the decoder panic, that what it takes for an
// object is one, and that pieces make no difference.
func FuzzRecords(f *testing.F) {
	for _, s := range []string{
		`{"value":{"type":"JSON","data":{"a":[1,"}"]}}} {"key":{"data":"AA=="}}`, `{"a":"\\"}`, ` [`, `{]`, `{"headers":[{"name":"h","value":"AQ=="}],"timestamp":"2026-01-01T00:00:00Z"}`,
		`{"partition_id":1,"value":{"type":"STRING","data":"\ud800"}}`, `{`, `{"value":{"type":"AVRO","schema":"x"}}`,
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var whole, pieces scanner
		n, err := whole.next(b)
		if cut = max(0, min(cut, len(b))); err == nil {
			m, _ := pieces.next(b[:cut])
			if m == 0 {
				m, _ = pieces.next(b)
			}
			if m != n {
				t.Fatalf("%d bytes at once, %d in pieces", n, m)
			}
		}
		if n == 0 {
			return
		}
		r, j, err := decodeV3(b[:n], 1)
		if err == nil && (j == nil || r.partition < -1 || !json.Valid(b[:n])) {
			t.Fatalf("%q gives %+v", b[:n], r)
		}
	})
}

// FuzzRequests holds that no body of version 2 makes a decoder panic, and that what is refused has a
// code.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"records":[{"key":"AA==","value":"","partition":0,"headers":[{"key":"h","value":null}],"timestamp":1}]}`))
	f.Add([]byte(`{"name":"x","format":"json","auto.offset.reset":"earliest","auto.commit.enable":"true","fetch.min.bytes":"1","consumer.request.timeout.ms":1000}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		refused := func(err error) {
			if err != nil && (refusalOf(err).Code < 400 || refusalOf(err).Message == "") {
				t.Fatalf("%q: %+v", b, refusalOf(err))
			}
		}
		var c createJSON
		if err := decodeJSON(b, &c); err != nil {
			refused(err)
		} else {
			_, err := c.config()
			refused(err)
		}
		var p produceJSON
		if err := decodeJSON(b, &p); err != nil {
			refused(err)
			return
		}
		for _, f := range []format{asBase64, asJSON, asText} {
			for _, r := range p.Records {
				v, err := decodeData(f, "value", r.Value)
				refused(err)
				if err == nil {
					if _, ok := appendData(nil, f, v); !ok && f != asJSON {
						t.Fatalf("%q is taken and cannot be given", r.Value)
					}
				}
				_, err = decodeHeaders(r.Headers)
				refused(err)
			}
		}
	})
}
