package kafkarest

import (
	"strings"

	"github.com/valyala/fasthttp"
)

// The content types of version 2.
const (
	typeV2   = "application/vnd.kafka.v2+json"
	typeJSON = "application/json"
)

// format is how keys and values are in JSON.
type format string

const (
	asBase64 format = "binary" // base64
	asJSON   format = "json"   // as they are: bytes that are JSON
	asText   format = "string" // version 3 only
	schema   format = "schema" // avro, jsonschema, protobuf: there is no registry
)

// formats are those that content types name.
var formats = map[string]format{"binary": asBase64, "json": asJSON, "avro": schema, "jsonschema": schema, "protobuf": schema}

// typeOf is a media type without its parameters.
func typeOf(header []byte) string {
	kind, _, _ := strings.Cut(strings.ToLower(string(header)), ";")
	return strings.TrimSpace(kind)
}

// embedded is the format that a media type names: application/vnd.kafka.FORMAT.v2+json.
func embedded(kind string) (f format, ok bool) {
	name, ours := strings.CutPrefix(kind, "application/vnd.kafka.")
	name, v2 := strings.CutSuffix(name, ".v2+json")
	if !ours || !v2 {
		return "", false
	}
	f, ok = formats[name]
	return f, ok
}

// takes refuses a body of a type that is not version 2's JSON. Where the client says nothing of its
// type, or plain JSON, that is taken for it.
func (c *call) takes() error {
	kind := typeOf(c.Request.Header.ContentType())
	if _, ok := embedded(kind); ok || kind == "" || kind == typeV2 || kind == typeJSON || kind == "application/vnd.kafka+json" {
		return nil
	}
	return &refusal{fasthttp.StatusUnsupportedMediaType, "HTTP 415 Unsupported Media Type"}
}

// accepted is the format that a client that reads records wants: the one it names, or def where it
// names none.
func (c *call) accepted(def format) (format, error) {
	header := string(c.Request.Header.Peek(fasthttp.HeaderAccept))
	any := header == ""
	for part := range strings.SplitSeq(header, ",") {
		kind := typeOf([]byte(part))
		if f, ok := embedded(kind); ok {
			return f, nil
		}
		any = any || kind == "*/*" || kind == "application/*" || kind == typeJSON || kind == typeV2
	}
	if !any {
		return "", &refusal{fasthttp.StatusNotAcceptable, "HTTP 406 Not Acceptable"}
	}
	return def, nil
}

// answerType is the content type of an answer that has no records.
func answerType(ctx *fasthttp.RequestCtx) string {
	if strings.HasPrefix(string(ctx.URI().PathOriginal()), "/v3") {
		return typeJSON
	}
	return typeV2
}
