package front

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/valyala/fasthttp"

	"polylog/core"
)

// Problem is the body of every refusal: RFC 9457's, with a code for programs and whether
// the same request may succeed later. It is an error, so that handlers return it.
type Problem struct {
	Title     string `json:"title"` // the status in words
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Detail    string `json:"detail,omitempty"`
	Retryable bool   `json:"retryable"`
	// Results are those of each message or receipt, where all of them failed.
	Results any `json:"results,omitempty"`

	RetryAfter int `json:"-"` // s; 0: not said
}

// Error is the detail, or the status in words.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return http.StatusText(p.Status)
}

// kinds says what the kinds of errors are in HTTP.
var kinds = [...]Problem{
	core.OK:              {Status: 200, Code: "ok"},
	core.Internal:        {Status: 500, Code: "internal"},
	core.Invalid:         {Status: 400, Code: "invalid"},
	core.NotFound:        {Status: 404, Code: "not_found"},
	core.Exists:          {Status: 409, Code: "already_exists"},
	core.OutOfRange:      {Status: 416, Code: "out_of_range"},
	core.TooLarge:        {Status: 413, Code: "too_large"},
	core.Corrupt:         {Status: 500, Code: "corrupt"},
	core.Denied:          {Status: 403, Code: "denied"},
	core.NotLeader:       {Status: 503, Code: "no_leader", Retryable: true, RetryAfter: 1},
	core.Unavailable:     {Status: 503, Code: "unavailable", Retryable: true, RetryAfter: 1},
	core.Uncertain:       {Status: 504, Code: "uncertain", Retryable: true},
	core.Conflict:        {Status: 409, Code: "conflict"},
	core.Fenced:          {Status: 409, Code: "fenced"},
	core.OutOfSequence:   {Status: 409, Code: "out_of_sequence"},
	core.DuplicateSeq:    {Status: 409, Code: "duplicate"},
	core.UnknownProducer: {Status: 409, Code: "unknown_producer"},
	core.Limit:           {Status: 429, Code: "limit"},
	core.Unsupported:     {Status: 501, Code: "unsupported"},
	core.Closed:          {Status: 503, Code: "shutting_down", Retryable: true, RetryAfter: 1},
}

// ProblemOf is what an error is in HTTP.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	k := core.KindOf(err)
	if int(k) >= len(kinds) {
		k = core.Internal
	}
	p := kinds[k]
	p.Detail = err.Error()
	if k == core.Internal {
		p.Detail = "the broker's log says more" // not what is inside, to strangers
	}
	return &p
}

// RefuseWith answers with a problem.
func RefuseWith(ctx *fasthttp.RequestCtx, err error) {
	p := *ProblemOf(err)
	p.Title = http.StatusText(p.Status)
	ctx.Response.ResetBody()
	if p.RetryAfter > 0 {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	}
	body, err := json.Marshal(&p)
	if err != nil {
		panic(err) // our own types always encode
	}
	Send(ctx, p.Status, "application/problem+json", body)
}

// Send answers with a body that nobody may keep: what it says is true now.
func Send(ctx *fasthttp.RequestCtx, status int, contentType string, body []byte) {
	ctx.SetStatusCode(status)
	ctx.SetContentType(contentType)
	h := &ctx.Response.Header
	h.Set(fasthttp.HeaderCacheControl, "no-store")
	h.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	ctx.Response.SetBodyRaw(append(body, '\n'))
}

func isProblem(err error) bool {
	_, ok := errors.AsType[*Problem](err)
	return ok
}
