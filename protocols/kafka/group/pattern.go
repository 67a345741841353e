package group

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"
)

// Pattern is a regular expression by which members subscribe to topics. One that is nil or has no
// text matches nothing.
type Pattern struct {
	text  string
	re    *regexp.Regexp // nil without text
	steps int            // its instructions
}

const (
	// maxPattern bounds a subscribed regular expression, in bytes, and maxSteps what it may compile
	// to, in instructions: nothing of that length without counted repetition has as many.
	maxPattern = 4 << 10
	maxSteps   = 10_000
	stepBytes  = 40 // that an instruction takes
	stepRunes  = stepBytes / 4
)

// CompilePattern makes a Pattern. It takes its time, so no lock should be held. An error is for the
// member to read.
func CompilePattern(text string) (*Pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("regular expression has %d bytes, want at most %d", len(text), maxPattern)
	}
	if text == "" {
		return &Pattern{}, nil
	}
	// Kafka's patterns are RE2's too, and must match the whole name. What is within the group has to
	// be an expression by itself.
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	steps := instructions(tree)
	if steps > maxSteps {
		return nil, fmt.Errorf("regular expression compiles to about %d instructions, want at most %d", steps, maxSteps)
	}
	re, err := regexp.Compile("^(?:" + text + ")$")
	if err != nil {
		return nil, err
	}
	return &Pattern{text: text, re: re, steps: steps}, nil
}

// instructions is about how many an expression compiles to, before that is done: repetitions are
// written out, and one within another multiplies. A class of characters counts by its table. The
// parser has bounded the tree so that the number does not overflow.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/stepRunes
	case syntax.OpRepeat:
		if re.Max < 0 {
			return n*max(re.Min, 1) + 2
		}
		return n*re.Max + re.Max - re.Min
	case syntax.OpConcat:
		return n
	case syntax.OpAlternate:
		return n + len(re.Sub)
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return n + 2
	default:
		return 1
	}
}

// Text is the expression as it was given.
func (p *Pattern) Text() string {
	if p == nil {
		return ""
	}
	return p.text
}

// Match reports whether it is the whole of a topic's name that matches.
func (p *Pattern) Match(topic string) bool { return p != nil && p.re != nil && p.re.MatchString(topic) }

// size is what it takes in memory.
func (p *Pattern) size() int {
	if p == nil {
		return 0
	}
	return len(p.text) + stepBytes*p.steps
}

// patternKey says whose view of a pattern it is: users may know of different topics.
type patternKey struct{ text, user string }

// found is what a pattern matches for a user; who has both shares it.
type found struct {
	names  []string  // of topics, in order
	looked time.Time // when, or when somebody went to look
}

func (f *found) has(topic string) bool {
	if f == nil {
		return false
	}
	_, ok := slices.BinarySearch(f.names, topic)
	return ok
}

func (f *found) size() int { return 128 + 16*len(f.names) }

// PatternDue is the pattern for which a heartbeat has to bring Beat.Found, since nobody has looked
// lately; nil when there is none. To match all topics takes long, so it is not done here.
func (c *Coordinator) PatternDue(now time.Time, b *Beat) *Pattern {
	g, p := c.consumers[b.Group], b.Pattern
	if g != nil && p == nil {
		if m := g.byID[b.Member]; m != nil {
			p = m.pattern
		}
	}
	if p.Text() == "" || b.Epoch < epochJoin {
		return nil
	}
	if g != nil {
		if f := g.found[patternKey{p.text, b.User}]; f != nil {
			if now.Sub(f.looked) < refreshTopics {
				return nil
			}
			f.looked = now
		}
	}
	return p
}

// look gives m what its pattern matches, as far as it is known, and takes over what b brings. It
// reports whether that has changed.
func (g *consumers) look(now time.Time, m *consumer, b *Beat) (changed bool) {
	before := m.found
	m.user, m.found = b.User, nil
	if m.pattern.Text() != "" {
		key := patternKey{m.pattern.text, m.user}
		f := g.found[key]
		if f == nil {
			f = &found{}
			g.found[key] = f
		}
		if b.Looked == m.pattern || b.Looked.Text() == m.pattern.text {
			f.looked = now
			if !slices.Equal(f.names, b.Found) {
				f.names, changed = b.Found, true
			}
		}
		m.found = f
	}
	if before != nil && m.found != before {
		g.forget()
	}
	return changed || m.found != before
}

// forget drops what was found for patterns that no member has.
func (g *consumers) forget() {
	used := map[*found]bool{}
	for _, m := range g.members {
		used[m.found] = true
	}
	for key, f := range g.found {
		if !used[f] {
			delete(g.found, key)
		}
	}
}
