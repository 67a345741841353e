package main

// intention is a difference on purpose: what Polylog answers, and why.
type intention struct {
	ours, reason string
}

var intended = map[string]intention{}
