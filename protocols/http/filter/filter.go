// Package filter says which messages a subscription wants: those with one of some tags, with
// all of some headers, and for which an expression in the Common Expression Language (CEL) is
// true. Compiled filters are immutable and may be used by many goroutines; what one evaluation
// costs is bounded.
package filter

import (
	"slices"

	"polylog/core"
	"polylog/core/message"
)

// TagHeader is the header that has a message's tag.
const TagHeader = "tag"

// MaxTerms bounds the tags and headers of a filter, together.
const MaxTerms = 100

// Spec is a filter as its author wrote it. The zero value wants every message.
type Spec struct {
	Tags    []string          `json:"tags,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	CEL     string            `json:"cel,omitempty"`
}

// Filter chooses messages. A nil one wants all.
type Filter struct {
	spec Spec
	cel  *expression // nil: there is none
}

// Compile makes a filter. The error is of kind core.Invalid.
func Compile(s *Spec) (*Filter, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // a nil filter is one
	}
	if n := len(s.Tags) + len(s.Headers); n > MaxTerms {
		return nil, core.E(core.Invalid, "the filter has %d tags and headers, at most %d are allowed", n, MaxTerms)
	}
	f := &Filter{spec: *s}
	if s.CEL != "" {
		var err error
		if f.cel, err = compiled.get(s.CEL); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Wants reports whether the filter chooses a message. One for which the expression has no
// value, since a header is missing or of another type, or costs too much, is not chosen.
func (f *Filter) Wants(r *core.Record) bool {
	if f == nil {
		return true
	}
	if len(f.spec.Tags) > 0 {
		tag, ok := message.HeaderOf(r, TagHeader)
		if !ok || !slices.Contains(f.spec.Tags, tag.Str()) {
			return false
		}
	}
	for name, want := range f.spec.Headers {
		if v, ok := message.HeaderOf(r, name); !ok || v.String() != want && v.Str() != want {
			return false
		}
	}
	return f.cel == nil || f.cel.wants(r)
}
