package amqp

import (
	"math"
	"regexp"

	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// Arguments of queues that mean something here, beside those that are only checked.
const (
	argType          = "x-queue-type"
	argTTL           = "x-message-ttl"
	argExpires       = "x-expires"
	argDeadExchange  = "x-dead-letter-exchange"
	argDeadKey       = "x-dead-letter-routing-key"
	argMaxLength     = "x-max-length"
	argMaxBytes      = "x-max-length-bytes"
	argMaxPriority   = "x-max-priority"
	argOverflow      = "x-overflow"
	argSingleActive  = "x-single-active-consumer"
	argDeliveryLimit = "x-delivery-limit"
)

// kindSet says which kinds of queues know an argument.
type kindSet uint8

const (
	forClassic kindSet = 1 << iota
	forQuorum
	forStream
	forLive = forClassic | forQuorum
)

var kindNames = [...]struct {
	kind  router.QueueKind
	name  string
	set   kindSet
	title string // as RabbitMQ's texts have it
}{
	{router.Classic, "classic", forClassic, "rabbit_classic_queue"},
	{router.Quorum, "quorum", forQuorum, "rabbit_quorum_queue"},
	{router.Stream, "stream", forStream, "rabbit_stream_queue"},
}

// queueArguments are the arguments that RabbitMQ knows, in the order in which it checks them.
var queueArguments = [...]struct {
	name  string
	kinds kindSet
	wrong func(v message.Value, all message.Table) string
}{
	{argExpires, forLive, func(v message.Value, _ message.Table) string {
		if wrong := wrongPositive(v); wrong != "" {
			return wrong
		}
		return wrongExpiry(v)
	}},
	{argTTL, forLive, only(wrongExpiry)},
	{argDeadExchange, forLive, only(wrongText)},
	{argDeadKey, forLive, func(v message.Value, all message.Table) string {
		if wrong := wrongText(v); wrong != "" {
			return wrong
		}
		if argument(all, argDeadExchange) == nil {
			return "routing_key_but_no_dlx_defined"
		}
		return ""
	}},
	{"x-dead-letter-strategy", forQuorum, func(v message.Value, _ message.Table) string {
		return wrongChoice(v, "invalid_dlx_strategy", "at-most-once", "at-least-once")
	}},
	{argMaxLength, forLive, only(wrongNonNegative)},
	{argMaxBytes, forLive | forStream, only(wrongNonNegative)},
	{"x-max-in-memory-length", forQuorum, only(wrongNonNegative)},
	{"x-max-in-memory-bytes", forQuorum, only(wrongNonNegative)},
	{argMaxPriority, forClassic, func(v message.Value, _ message.Table) string {
		if wrong := wrongNonNegative(v); wrong != "" {
			return wrong
		}
		if intOf(v) > math.MaxUint8 {
			return "{max_value_exceeded," + plainText(v) + "}"
		}
		return ""
	}},
	{argOverflow, forLive, func(v message.Value, _ message.Table) string {
		return wrongChoice(v, "invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx")
	}},
	{"x-queue-mode", forClassic, func(message.Value, message.Table) string { return "" }},
	{"x-queue-version", forClassic, only(wrongNonNegative)},
	{argSingleActive, forLive, only(wrongBool)},
	{argType, forLive | forStream, func(message.Value, message.Table) string { return "" }}, // checked first
	{argDeliveryLimit, forQuorum, only(wrongInt)},
	{argConsumerTimeout, forLive, only(wrongNonNegative)},
	{"x-quorum-initial-group-size", forQuorum, only(wrongPositive)},
	{"x-max-age", forStream, func(v message.Value, _ message.Table) string {
		if wrong := wrongText(v); wrong != "" {
			return wrong
		}
		if !maxAge.MatchString(v.Str()) {
			return "invalid_max_age"
		}
		return ""
	}},
	{"x-stream-max-segment-size-bytes", forStream, only(wrongNonNegative)},
	{"x-stream-filter-size-bytes", forStream, only(wrongNonNegative)},
	{"x-initial-cluster-size", forStream, only(wrongPositive)},
	{"x-queue-leader-locator", forLive | forStream, func(v message.Value, _ message.Table) string {
		return wrongChoice(v, "invalid_queue_locator_arg", "client-local", "balanced", "random", "least-leaders")
	}},
	{"x-queue-master-locator", forClassic, only(wrongText)},
}

var maxAge = regexp.MustCompile(`^0*[1-9][0-9]*[YMDhms]$`)

func only(wrong func(message.Value) string) func(message.Value, message.Table) string {
	return func(v message.Value, _ message.Table) string { return wrong(v) }
}

func invalidArgument(name, thing, wrong string) error {
	return soft(spec.PreconditionFailed, "invalid arg '%s' for %s: %s", name, thing, wrong)
}

// queueKind is the kind that arguments ask for.
func queueKind(args message.Table, thing string) (router.QueueKind, error) {
	v := argument(args, argType)
	if v == nil {
		return router.Classic, nil
	}
	if wrong := wrongText(*v); wrong != "" {
		return 0, invalidArgument(argType, thing, wrong)
	}
	for _, k := range kindNames {
		if v.Str() == k.name {
			return k.kind, nil
		}
	}
	return 0, invalidArgument(argType, thing, `"unsupported queue type '`+v.Str()+`'"`)
}

// checkQueueArguments checks the arguments of a new queue of a kind.
func checkQueueArguments(kind router.QueueKind, args message.Table, thing string) error {
	set := kindNames[kind].set
	for _, a := range queueArguments {
		v := argument(args, a.name)
		if v == nil || a.kinds&set == 0 {
			continue
		}
		if wrong := a.wrong(*v, args); wrong != "" {
			return invalidArgument(a.name, thing, wrong)
		}
	}
	for _, a := range queueArguments {
		if a.kinds&set == 0 && argument(args, a.name) != nil {
			return soft(spec.PreconditionFailed, "invalid arg '%s' for %s of queue type %s", a.name, thing, kindNames[kind].title)
		}
	}
	return nil
}

// sameQueueArguments compares the arguments of a queue that exists with a declaration's: those
// that its kind knows.
func sameQueueArguments(kind router.QueueKind, current, received message.Table, thing string) error {
	set := kindNames[kind].set
	for _, a := range queueArguments {
		if a.kinds&set == 0 {
			continue
		}
		was, is := argument(current, a.name), argument(received, a.name)
		if a.name == argType {
			was, is = orClassic(was), orClassic(is)
		}
		if err := equivalent(a.name, thing, was, is); err != nil {
			return err
		}
	}
	return nil
}

// orClassic is the type that a queue has which says nothing.
func orClassic(v *message.Value) *message.Value {
	if v == nil {
		classic := message.String("classic")
		return &classic
	}
	return v
}

// limitsOf are the limits that checked arguments ask for.
func limitsOf(args message.Table) (l router.QueueLimits) {
	number := func(name string) (n int64, has bool) {
		if v := argument(args, name); v != nil {
			return intOf(*v), true
		}
		return 0, false
	}
	text := func(name string) (s string, has bool) {
		if v := argument(args, name); v != nil {
			return v.Str(), true
		}
		return "", false
	}
	l.TTL, l.HasTTL = number(argTTL)
	l.Expires, _ = number(argExpires)
	l.MaxLength, l.HasMaxLength = number(argMaxLength)
	l.MaxBytes, l.HasMaxBytes = number(argMaxBytes)
	priority, _ := number(argMaxPriority)
	l.MaxPriority = int(priority)
	l.DeadLetterExchange, l.HasDeadLetter = text(argDeadExchange)
	l.DeadLetterKey, l.HasDeadLetterKey = text(argDeadKey)
	if n, has := number(argDeliveryLimit); has {
		// RabbitMQ's 0 is a limit that the first failure exceeds. A queue's 0 says nothing, and 1 is next to it.
		if l.DeliveryLimit = int(min(max(n, -1), math.MaxInt32)); n == 0 {
			l.DeliveryLimit = 1
		}
	}
	switch overflow, _ := text(argOverflow); overflow {
	case "reject-publish":
		l.Overflow = router.RejectPublish
	case "reject-publish-dlx":
		l.Overflow = router.RejectPublishDLX
	}
	return l
}

// singleActive reports whether the arguments ask for one consumer at a time.
func singleActive(args message.Table) bool {
	v := argument(args, argSingleActive)
	return v != nil && v.Bool()
}
