package main

import (
	"os"
	"strings"
	"testing"
)

func TestEveryMetricIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, t.TempDir())
	must(t, "", "pub", "words", "-b", s.kafka, "one")
	_, metrics := get(t, "http://"+s.http+"/metrics")
	seen := 0
	for line := range strings.Lines(metrics) {
		words := strings.Fields(line)
		if len(words) < 4 || words[1] != "TYPE" || !strings.HasPrefix(words[2], "polylog_") {
			continue
		}
		seen++
		if row := "| `" + words[2] + "` | " + words[3] + " |"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/metrics.md lacks %s", row)
		}
	}
	if seen == 0 {
		t.Errorf("no metrics in\n%s", metrics)
	}
}
