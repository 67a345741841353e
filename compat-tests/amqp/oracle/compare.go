package main

import (
	"fmt"
	"slices"
	"strings"

	"polylog/compat/amqp/probe"
)

// compare prints what differs and returns how many probes failed: those that differ and are not
// meant to, those that are meant to and do not, and those that RabbitMQ was never asked. What is pending
// may differ: the broker lacks it, and says so.
func compare(probes []probe.Probe, theirs, ours []probe.Outcome, intended map[string]intention, pending []string, verbose bool) (failed int) {
	same, meant, waiting := 0, 0, 0
	for i, p := range probes {
		got := ours[i]
		want, known := probe.Named(theirs, p.Name)
		why, listed := intended[p.Name]
		switch {
		case !known:
			failed++
			fmt.Printf("FAIL %s: RabbitMQ's answer is not in the record; make it anew with -live -write\n", p.Name)
		case listed && want.Text == got.Text:
			failed++
			fmt.Printf("FAIL %s: listed as a difference, and there is none\n", p.Name)
		case listed && got.Text == why.ours:
			meant++
			fmt.Printf("meant %s: %s\n%s", p.Name, reasons[why.reason], diff(want.Text, got.Text))
		case listed:
			failed++
			fmt.Printf("FAIL %s: not the difference that was meant (%s)\n%s", p.Name, why.reason, diff(why.ours, got.Text))
		case want.Text != got.Text && slices.Contains(pending, p.Name):
			waiting++
			fmt.Printf("not yet %s\n%s", p.Name, diff(want.Text, got.Text))
		case want.Text != got.Text:
			failed++
			fmt.Printf("FAIL %s\n%s", p.Name, diff(want.Text, got.Text))
		default:
			if slices.Contains(pending, p.Name) {
				fmt.Printf("no longer pending: %s\n", p.Name)
			}
			same++
			if verbose {
				fmt.Printf("same %s\n%s", p.Name, indent("  ", got.Text))
			}
		}
	}
	for name := range intended {
		if !slices.ContainsFunc(probe.All(), func(p probe.Probe) bool { return p.Name == name }) {
			failed++
			fmt.Printf("FAIL %s: listed as a difference, and there is no such probe\n", name)
		}
	}
	fmt.Printf("%d behaviours: %d the same, %d different on purpose, %d not there yet, %d different\n", len(probes), same, meant, waiting, failed)
	fmt.Printf("%d passed, %d failed\n", same+meant, failed)
	return failed
}

// diff shows the lines that only one side has: - what was to come, + what Polylog says.
func diff(theirs, ours string) string {
	a, b := strings.Split(theirs, "\n"), strings.Split(ours, "\n")
	// The longest common subsequence, from the back.
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i, x := range slices.Backward(a) {
		for j, y := range slices.Backward(b) {
			if x == y {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var s strings.Builder
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			fmt.Fprintf(&s, "    - %s\n", a[i])
			i++
		default:
			fmt.Fprintf(&s, "    + %s\n", b[j])
			j++
		}
	}
	return s.String()
}

func indent(by, text string) string {
	var s strings.Builder
	for line := range strings.Lines(text) {
		s.WriteString(by + strings.TrimRight(line, "\n") + "\n")
	}
	return s.String()
}
