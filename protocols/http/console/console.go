// Package console is the page by which people look at the broker in a browser: its files, which are
// in the binary, and who may change something with it. What it shows and does it asks of /v1, like
// every other client; docs/console.md says more.
//
// There is no build step: assets has what is served. Third-party code is in assets/vendor, put there
// by scripts/console-vendor.sh.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/valyala/fasthttp"

	"polylog/protocols/http/front"
)

// Prefix is where the console is.
const Prefix = "/console/"

// policy lets the page load nothing that this broker does not serve, run no script that is in the
// page or made of text, and be in no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed assets
var assets embed.FS

// asset is a file as it is served.
type asset struct {
	kind       string
	tag        string
	body, gzip []byte // gzip is nil where it is not shorter
}

// kinds are types of files, which must not depend on what the machine thinks they are.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// load reads the files, by their paths below Prefix.
func load() (map[string]*asset, error) {
	all := map[string]*asset{}
	err := fs.WalkDir(assets, "assets", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := assets.ReadFile(p)
		if err != nil {
			return err
		}
		kind := kinds[path.Ext(p)]
		if kind == "" {
			return fmt.Errorf("console: %s is of no known type", p)
		}
		sum := sha256.Sum256(body)
		a := &asset{kind: kind, tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`, body: body}
		if z, err := compress(body); err == nil && len(z) < len(body) {
			a.gzip = z
		}
		name := strings.TrimPrefix(p, "assets/")
		all[name] = a
		if name == "index.html" {
			all[""] = a
		}
		return nil
	})
	return all, err
}

func compress(b []byte) ([]byte, error) {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// serveAsset answers with a file.
func (c *Console) serveAsset(ctx *fasthttp.RequestCtx, name string) error {
	a := c.assets[name]
	if a == nil {
		return &front.Problem{Status: 404, Code: "no_such_path", Detail: "the console has no such file"}
	}
	h := &ctx.Response.Header
	h.Set(fasthttp.HeaderETag, a.tag)
	h.Set(fasthttp.HeaderCacheControl, "no-cache") // kept, and asked about each time: a new version is seen at once
	h.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	h.Set(fasthttp.HeaderContentSecurityPolicy, policy)
	h.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	h.Set(fasthttp.HeaderReferrerPolicy, "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if matches(ctx.Request.Header.Peek(fasthttp.HeaderIfNoneMatch), a.tag) {
		ctx.SetStatusCode(fasthttp.StatusNotModified)
		return nil
	}
	ctx.SetContentType(a.kind)
	if a.gzip != nil && ctx.Request.Header.HasAcceptEncoding("gzip") {
		h.Set(fasthttp.HeaderContentEncoding, "gzip")
		ctx.Response.SetBodyRaw(a.gzip)
		return nil
	}
	ctx.Response.SetBodyRaw(a.body)
	return nil
}

// matches reports whether If-None-Match has a tag. Proxies that compress make it a weak one.
func matches(header []byte, tag string) bool {
	for one := range strings.SplitSeq(string(header), ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}
