package front

import (
	"encoding/base64"
	"strings"

	"github.com/valyala/fasthttp"
)

// Basic is the user and the password of a request's Authorization (RFC 7617); false where it has none
// of that form.
func Basic(ctx *fasthttp.RequestCtx) (user, password string, ok bool) {
	kind, encoded, _ := strings.Cut(string(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)), " ")
	if !strings.EqualFold(kind, "basic") {
		return "", "", false
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(text), ":")
}

// Challenge is the header WWW-Authenticate that asks for it.
const Challenge = `Basic realm="polylog", charset="UTF-8"`
