package kafkarest

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/valyala/fasthttp"

	"polylog/core"
	"polylog/protocols/http/front"
)

// refusal is the body of every refusal. The first three digits of the code are the status of
// HTTP, but where it is the status alone.
type refusal struct {
	Code    int    `json:"error_code"`
	Message string `json:"message"`
}

// Error is the message.
func (r *refusal) Error() string { return r.Message }

// status is the refusal's status in HTTP.
func (r *refusal) status() int {
	if r.Code >= 1000 {
		return r.Code / 100
	}
	return r.Code
}

// The proxy's own codes. Clients compare the numbers, people the words.
var (
	errTopicNotFound     = &refusal{40401, "Topic not found."}
	errPartitionNotFound = &refusal{40402, "Partition not found."}
	errInstanceNotFound  = &refusal{40403, "Consumer instance not found."}
	errNoSuchTopicV3     = &refusal{40403, "This server does not host this topic-partition."}
	errFormat            = &refusal{40601, "The requested embedded data format does not match the deserializer for this consumer instance"}
	errInstanceExists    = &refusal{40902, "Consumer with specified consumer ID already exists in the specified consumer group."}
	errSubscribed        = &refusal{40903, "Illegal state: Subscription to topics, partitions and pattern are mutually exclusive"}
	errNoSchemas         = &refusal{42206, "Payload error. Schema Registry must be configured when using schemas."}
	errNotReady          = &refusal{50302, "The broker is starting or stopping."}
)

// Codes with words of their own.
const (
	// codeUnauthorized is the original's, of clients that are not logged in.
	codeUnauthorized = 40101
	codeDenied       = 40301
	codeIllegal      = 40903
	codeTimeout      = 40801
	codeUnprocessed  = 422
	codeConfig       = 42204
	codeKafka        = 50002
	codeRetriable    = 50003
)

// unprocessed refuses a body whose JSON is right but not what is wanted.
func unprocessed(message string) error { return &refusal{codeUnprocessed, message} }

// refusalOf is what an error is to the proxy's clients.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if p, ok := errors.AsType[*front.Problem](err); ok {
		return &refusal{p.Status, "HTTP " + http.StatusText(p.Status) + ": " + p.Error()}
	}
	switch core.KindOf(err) { //nolint:exhaustive // the others are below
	case core.Invalid, core.OutOfRange, core.Corrupt, core.Exists, core.Conflict, core.Fenced, core.Limit, core.Unsupported:
		return &refusal{40002, err.Error()}
	case core.NotFound:
		return errTopicNotFound
	case core.TooLarge:
		return &refusal{413, err.Error()}
	case core.Denied:
		return &refusal{codeDenied, err.Error()}
	case core.Uncertain:
		return &refusal{codeTimeout, err.Error()}
	case core.NotLeader, core.Unavailable, core.Closed:
		return &refusal{codeRetriable, err.Error()}
	}
	return &refusal{codeKafka, "Kafka error: the broker's log says more"} // not what is inside, to strangers
}

// recordError is what became of one record that was not stored: the proxy knows of those that can
// be tried again and of those that cannot.
func recordError(err error) *refusal {
	switch r := refusalOf(err); r.Code {
	case codeDenied, codeRetriable:
		return r
	case codeTimeout:
		return &refusal{codeRetriable, r.Message}
	default:
		return &refusal{codeKafka, r.Message}
	}
}

// isRefusal reports whether an error is one of those that are nothing to log.
func isRefusal(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// refuse answers with an error.
func refuse(ctx *fasthttp.RequestCtx, err error) {
	r := refusalOf(err)
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // our own types always encode
	}
	ctx.Response.ResetBody()
	front.Send(ctx, r.status(), answerType(ctx), body)
}
