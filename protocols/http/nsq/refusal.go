package nsq

import (
	"encoding/json"
	"errors"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
)

// refusal is the body of every refusal.
type refusal struct {
	status int
	// Message is the word that clients compare: nsqd's, where it has one.
	Message string `json:"message"`
	// Detail says more, to people. nsqd has none.
	Detail string `json:"detail,omitempty"`
}

// Error is the word.
func (r refusal) Error() string { return r.Message }

// nsqd's refusals.
var (
	errRequest         = refusal{400, "INVALID_REQUEST", ""}
	errNoTopicSaid     = refusal{400, "MISSING_ARG_TOPIC", ""}
	errTopicName       = refusal{400, "INVALID_TOPIC", ""}
	errNoChannelSaid   = refusal{400, "MISSING_ARG_CHANNEL", ""}
	errArgTopicName    = refusal{400, "INVALID_ARG_TOPIC", ""}
	errArgChannelName  = refusal{400, "INVALID_ARG_CHANNEL", ""}
	errDefer           = refusal{400, "INVALID_DEFER", ""}
	errEmpty           = refusal{400, "MSG_EMPTY", ""}
	errTopicNotFound   = refusal{404, "TOPIC_NOT_FOUND", ""}
	errChannelNotFound = refusal{404, "CHANNEL_NOT_FOUND", ""}
	errMessageTooBig   = refusal{413, "MSG_TOO_BIG", ""}
	errBodyTooBig      = refusal{413, "BODY_TOO_BIG", ""}
	errBody            = refusal{413, "BAD_BODY", ""}
	errMessage         = refusal{413, "BAD_MESSAGE", ""}
	errExiting         = refusal{503, "EXITING", ""}
)

// because is the refusal with a detail.
func (r refusal) because(detail string) refusal {
	r.Detail = detail
	return r
}

// refusalOf is what an error is to nsqd's clients.
func refusalOf(err error) refusal {
	if r, ok := errors.AsType[refusal](err); ok {
		return r
	}
	if p, ok := errors.AsType[*front.Problem](err); ok {
		return refusal{p.Status, errRequest.Message, p.Error()}
	}
	r := refusal{500, "INTERNAL_ERROR", ""} // not what is inside, to strangers
	switch core.KindOf(err) {
	case core.Invalid, core.Conflict, core.Exists:
		r = errRequest
	case core.Denied:
		r = refusal{403, "UNAUTHORIZED", ""}
	case core.NotFound:
		return errTopicNotFound
	case core.TooLarge:
		r = errMessageTooBig
	case core.Limit:
		r = refusal{429, "LIMIT", ""}
	case core.Unsupported:
		r = refusal{501, "NOT_IMPLEMENTED", ""}
	case core.NotLeader, core.Unavailable:
		r = refusal{503, "UNAVAILABLE", ""}
	case core.Closed:
		r = errExiting
	case core.Uncertain:
		r = refusal{504, "UNCERTAIN", ""}
	default:
		return r
	}
	return r.because(err.Error())
}

// isRefusal reports whether an error is one of those that are nothing to log.
func isRefusal(err error) bool {
	_, ok := errors.AsType[refusal](err)
	return ok
}

// refuse answers with an error.
func refuse(ctx *fasthttp.RequestCtx, err error) {
	r := refusalOf(err)
	if core.KindOf(err) == core.TooLarge && string(ctx.URI().PathOriginal()) == "/mpub" { // a body of many
		r.Message = errBodyTooBig.Message
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // our own types always encode
	}
	ctx.Response.ResetBody()
	mark(ctx)
	send(ctx, r.status, typeJSON, body)
}
