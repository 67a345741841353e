package httpd

import (
	"bytes"

	"polylog/protocols/http/front"
)

// maxDefinition bounds bodies that describe something, in bytes.
const maxDefinition = 256 << 10

// body reads the request's body, limit bytes at most. It is the call's until that ends:
// whoever keeps bytes of it copies them.
func (c *call) body(limit int) ([]byte, error) { return c.budget.Body(c.ctx, c.RequestCtx, limit) }

// definition reads a body that describes something into v, which is a pointer to a struct.
// An empty body leaves it as it is.
func (c *call) definition(v any) error {
	b, err := c.body(maxDefinition)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return err
	}
	return decodeJSON(b, v)
}

// decodeJSON decodes a whole JSON text, without fields that v does not have.
func decodeJSON(b []byte, v any) error { return front.DecodeJSON(b, v) }
