package state

import (
	"regexp"

	"polylog/core"
)

// Regular expressions of policies and rights are texts to the state. Which texts compile depends on the
// version of Go that a node is built with, and replicas may differ in that: so Apply takes any, and the doors
// refuse what does not compile before it is proposed (Policy.Check, Grant.Check). What a node cannot compile
// all the same matches nothing there, and Options.Complain hears of it.
//
// A policy's limits act in Apply, so that replicas would differ in what it matches. TestSyntaxIsFixed fails
// with a version of Go that takes more than the one before: doors must refuse that below a feature level.

// compile is regexp.Compile, but for tests of a node that compiles less.
var compile = regexp.Compile

// matchesNothing is for texts that do not compile.
var matchesNothing = regexp.MustCompile(`[^\x00-\x{10FFFF}]`)

// compilePattern compiles a text, or gives what matches nothing and says why.
func compilePattern(text string) (*regexp.Regexp, error) {
	re, err := compile(text)
	if err != nil {
		return matchesNothing, err
	}
	return re, nil
}

// complainOf says that this node cannot compile what another one has let in.
func (s *State) complainOf(what, text string, err error) {
	s.complain(core.E(core.Unsupported, "%s: this node cannot compile %q, which matches nothing here: %v", what, text, err))
}
