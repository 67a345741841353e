package core

import (
	"errors"
	"fmt"
)

// Kind says what a caller can do about an error. Each protocol maps kinds to its
// own codes in one table. A Kind is itself an error, so that
// errors.Is(err, core.NotFound) works on everything that E made.
type Kind uint8

// The kinds. The numbers travel between nodes; they are never reused.
const (
	OK              Kind = iota
	Internal             // our own fault; see the log
	Invalid              // the request can never succeed as it is
	NotFound             // no such topic, queue, group, …
	Exists               // the name is taken
	OutOfRange           // an offset outside [start, end]
	TooLarge             // beyond a size limit
	Corrupt              // bytes that fail their checksum
	Denied               // the principal may not
	NotLeader            // ask another node
	Unavailable          // cannot be served now; nothing was done; try again
	Uncertain            // may or may not have been done: a time-out after it was sent
	Conflict             // state forbids it now (not empty, in use, wrong state)
	Fenced               // a newer epoch exists
	OutOfSequence        // a producer's sequence has a gap
	DuplicateSeq         // an old duplicate whose offset is no longer known
	UnknownProducer      // a sequence other than 0 from a producer without state, where that is refused
	Limit                // a configured limit or quota is reached
	Unsupported          // not implemented for this object or version
	Closed               // this component is shutting down
)

var kindTexts = [...]string{
	OK:              "ok",
	Internal:        "internal error",
	Invalid:         "invalid request",
	NotFound:        "not found",
	Exists:          "already exists",
	OutOfRange:      "out of range",
	TooLarge:        "too large",
	Corrupt:         "corrupt data",
	Denied:          "denied",
	NotLeader:       "not the leader",
	Unavailable:     "unavailable",
	Uncertain:       "outcome unknown",
	Conflict:        "conflict",
	Fenced:          "fenced by a newer epoch",
	OutOfSequence:   "sequence out of order",
	DuplicateSeq:    "duplicate sequence",
	UnknownProducer: "unknown producer",
	Limit:           "limit reached",
	Unsupported:     "unsupported",
	Closed:          "closed",
}

// Error is the kind in words.
func (k Kind) Error() string {
	if int(k) < len(kindTexts) {
		return kindTexts[k]
	}
	return fmt.Sprintf("error kind %d", k)
}

// Error is an error of a known kind with its own sentence.
type Error struct {
	Kind Kind
	Msg  string // what was attempted, what was expected and what was there
}

// E makes an error of kind k. format follows fmt.Sprintf.
func E(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...)}
}

// Error is the sentence, or the kind in words where there is none.
func (e *Error) Error() string {
	if e.Msg == "" {
		return e.Kind.Error()
	}
	return e.Msg
}

// Is makes errors.Is(err, core.NotFound) true for an Error of that kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// KindOf is the kind of err: OK for nil, Internal for errors that carry none.
func KindOf(err error) Kind {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if k, ok := errors.AsType[Kind](err); ok {
		return k
	}
	return Internal
}
