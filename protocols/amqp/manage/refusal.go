package manage

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/amqp/spec"
	"polylog/protocols/http/front"
)

// refusal is an error as the API has it.
type refusal struct {
	status int
	Kind   string `json:"error"`
	Reason string `json:"reason"`
}

// Error is the reason.
func (r *refusal) Error() string { return r.Reason }

func badRequest(format string, args ...any) error {
	return &refusal{400, "bad_request", fmt.Sprintf(format, args...)}
}

// errNotFound is for paths that name nothing.
var errNotFound = &refusal{404, "Object Not Found", "Not Found"}

// refusalOf is what an error is.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if e, ok := errors.AsType[*amqpError](err); ok {
		return e.refusal()
	}
	p := front.ProblemOf(err)
	switch p.Code {
	case "no_such_path":
		return errNotFound
	case "invalid", "conflict", "already_exists":
		return &refusal{400, "bad_request", p.Detail}
	case "denied":
		return &refusal{401, "not_authorised", p.Detail}
	}
	return &refusal{p.Status, p.Code, p.Detail}
}

// isRefusal reports whether an error is an answer of the API, or of the AMQP server behind it.
func isRefusal(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	_, closed := errors.AsType[*amqpError](err)
	_, failed := errors.AsType[*unhealthy](err)
	return refused || closed || failed
}

func refuse(ctx *fasthttp.RequestCtx, err error) {
	if u, ok := errors.AsType[*unhealthy](err); ok {
		ctx.Response.ResetBody()
		body, _ := json.Marshal(u.object) //nolint:errchkjson // names and numbers
		front.Send(ctx, fasthttp.StatusServiceUnavailable, "application/json", body)
		return
	}
	r := refusalOf(err)
	ctx.Response.ResetBody()
	switch r.status {
	case 401:
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, `Basic realm="RabbitMQ Management"`) // some clients log in to that realm only
	case 503:
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // two strings always encode
	}
	front.Send(ctx, r.status, "application/json", body)
}

// amqpError is that the server has closed a channel or the connection.
type amqpError struct {
	code spec.Code
	text string // with the code's name in front
}

// Error is the code and the text.
func (e *amqpError) Error() string { return fmt.Sprintf("%d %s", e.code, e.text) }

// plain is the text without the code's name.
func (e *amqpError) plain() string { return strings.TrimPrefix(e.text, e.code.String()+" - ") }

func (e *amqpError) refusal() *refusal {
	switch e.code { //nolint:exhaustive // the others are bad requests
	case spec.NotFound:
		return &refusal{404, "not_found", e.plain()}
	case spec.AccessRefused:
		return &refusal{401, "not_authorised", e.plain()}
	case spec.NotAllowed:
		switch { // which texts of ours say
		case strings.HasPrefix(e.plain(), "vhost "):
			return &refusal{404, "not_found", "vhost_not_found"}
		case strings.HasPrefix(e.plain(), "access to vhost "):
			return &refusal{401, "not_authorised", e.plain()}
		}
	case spec.InternalError:
		return &refusal{500, "internal_error", e.plain()}
	case spec.ConnectionForced:
		return &refusal{503, "unavailable", e.plain()}
	}
	return &refusal{400, "bad_request", e.plain()}
}

// kind is the error's kind.
func kind(err error) core.Kind { return core.KindOf(err) }
