package httpd

import (
	_ "embed"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/valyala/fasthttp"
)

//go:embed openapi.yaml
var openAPIText []byte

// openAPIJSON is the description of the interface as it is served.
var openAPIJSON = sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(openAPIText) })

// openAPI serves the description of the interface.
func (s *Server) openAPI(ctx *fasthttp.RequestCtx) {
	doc, err := openAPIJSON()
	if err != nil {
		s.opts.Logger.Error("the description of the interface cannot be converted", "err", err)
		refuseWith(ctx, err)
		return
	}
	ctx.SetContentType("application/json")
	ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-cache")
	ctx.Response.SetBodyRaw(doc)
}
