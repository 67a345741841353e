package polylog

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDeployNamesMetrics looks for each metric that the dashboard and the alerts name in docs/metrics.md,
// which another test compares with what the broker gives.
func TestDeployNamesMetrics(t *testing.T) {
	doc := read(t, "docs/metrics.md")
	metric := regexp.MustCompile(`polylog_[a-z_]+`)
	for path, atLeast := range map[string]int{"deploy/grafana/polylog.json": 30, "deploy/prometheus/polylog.rules.yml": 12} {
		named := map[string]bool{}
		for _, name := range metric.FindAllString(read(t, path), -1) {
			named[strings.TrimSuffix(name, "_bucket")] = true
		}
		if len(named) < atLeast {
			t.Errorf("%s names %d metrics, want %d or more", path, len(named), atLeast)
		}
		for name := range named {
			if !strings.Contains(doc, "| `"+name+"` |") {
				t.Errorf("%s names %s, which docs/metrics.md lacks", path, name)
			}
		}
	}
}

// TestDashboard looks that the dashboard is JSON as Grafana has it: panels with queries that do not overlap.
func TestDashboard(t *testing.T) {
	type pos struct{ H, W, X, Y int }
	var d struct {
		Panels []struct {
			Title, Type string
			GridPos     pos
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/polylog.json")), &d); err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("panels %q and %q overlap", other, p.Title)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestDeploySettings looks for the settings of the compose file among those that there are.
func TestDeploySettings(t *testing.T) {
	doc := read(t, "docs/configuration.md")
	settings := regexp.MustCompile(`POLYLOG_[A-Z_]+`).FindAllString(read(t, "deploy/compose/compose.yaml"), -1)
	if len(settings) < 20 {
		t.Errorf("%d settings, want those of three nodes", len(settings))
	}
	for _, s := range settings {
		if !strings.Contains(doc, "`"+s+"`") {
			t.Errorf("docs/configuration.md lacks %s", s)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
