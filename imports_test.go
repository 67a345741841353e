// Package polylog holds no code: its tests keep the architecture.
package polylog

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "polylog"

// mayImport is the architecture: what each package may import of this module. A
// package that is not listed fails the test.
var mayImport = map[string][]string{
	"core":                    {},
	"core/vfs":                {},
	"core/wire":               {},
	"core/accept":             {},
	"core/certs":              {"core"},
	"core/certs/certstest":    {},
	"core/commitlog":          {"core", "core/vfs", "core/wire"},
	"core/ackset":             {"core", "core/wire"},
	"core/message":            {"core", "core/wire"},
	"core/topicfilter":        {"core"},
	"index":                   {"core", "core/vfs", "core/wire"},
	"router/state":            {"core", "core/ackset", "core/message", "core/topicfilter", "core/wire", "index"},
	"cluster/peer":            {"core", "core/certs", "core/wire"},
	"cluster":                 {"core", "core/vfs", "core/wire", "core/commitlog", "cluster/peer"},
	"router/admin":            {"core", "router", "router/state"},
	"cluster/simtest":         {"core", "core/vfs", "core/commitlog", "cluster", "cluster/peer", "index", "router/state"},
	"router":                  {"core", "core/ackset", "core/message", "core/topicfilter", "core/topicfilter", "core/wire", "index", "router/dispatch", "router/login", "router/state"},
	"router/dispatch":         {"core", "core/ackset"},
	"router/login":            {"core", "router/state"},
	"router/routertest":       {"core", "core/vfs", "core/wire", "index", "router", "router/state"},
	"protocols/kafka":         {"core", "core/accept", "core/wire", "router", "protocols/kafka/group"},
	"protocols/kafka/group":   {"core"},
	"protocols/amqp":          {"core", "core/accept", "core/certs", "core/message", "core/wire", "router", "protocols/amqp/spec"},
	"protocols/amqp/spec":     {"core/message"},
	"protocols/amqp/manage":   {"core", "core/message", "router", "protocols/amqp", "protocols/amqp/spec", "protocols/http/front"},
	"protocols/amqp/spec/gen": {},
	"protocols/mqtt":          {"core", "core/accept", "core/certs", "core/message", "core/topicfilter", "core/wire", "router"},
	"protocols/http":          {"core", "core/message", "core/wire", "router", "router/admin", "protocols/http/console", "protocols/http/front", "protocols/http/filter", "protocols/http/hook", "protocols/http/publish", "protocols/http/subscription", "protocols/http/webhook"},
	"protocols/http/front":    {"core"},
	"protocols/http/console":  {"protocols/http/front"},
	"cmd/polylog/config":      {"router", "protocols/mqtt"},
	"cmd/polylog/rest":        {},

	"protocols/http/filter":       {"core", "core/message"},
	"protocols/http/hook":         {"core", "protocols/http/front", "protocols/http/subscription"},
	"protocols/http/kafkarest":    {"core", "protocols/http/front", "protocols/http/publish", "protocols/kafka", "router"},
	"protocols/http/nsq":          {"core", "core/message", "protocols/http/front", "protocols/http/publish", "protocols/http/subscription", "protocols/http/webhook", "router"},
	"protocols/http/publish":      {"core", "router"},
	"protocols/http/subscription": {"core", "router", "protocols/http/filter"},
	"protocols/http/webhook":      {"core", "core/message", "router", "protocols/http/filter", "protocols/http/subscription"},

	"cmd/polylog": {
		"core", "core/certs", "core/vfs", "core/wire", "core/commitlog", "index", "cluster", "cluster/peer", "router", "router/state", "router/admin",
		"core/message", "protocols/kafka", "protocols/kafka/group", "protocols/amqp", "protocols/amqp/manage", "protocols/mqtt", "protocols/http", "protocols/http/console", "protocols/http/kafkarest", "protocols/http/nsq", "protocols/http/webhook", "cmd/polylog/config", "cmd/polylog/rest",
	},
}

// onlyIn says which modules of others have one importer.
var onlyIn = map[string]string{
	"github.com/hashicorp/raft":           "cluster",
	"google.golang.org/grpc":              "cluster/peer",
	"github.com/RoaringBitmap/roaring/v2": "core/ackset",
}

// notOurs says whether the table leaves the folder alone: tools, data, and modules of
// their own, which speak to the built binary and can import nothing from here.
func notOurs(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	name := filepath.Base(dir)
	return err == nil || strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules"
}

func TestImportsPointDownwards(t *testing.T) {
	eachFile(t, func(p string) {
		if strings.HasSuffix(p, "_test.go") {
			return
		}
		pkg := filepath.ToSlash(filepath.Dir(p))
		may, listed := mayImport[pkg]
		if !listed {
			t.Errorf("%s: package %s is not in mayImport", p, pkg)
		}
		for _, i := range importsOf(t, p) {
			if own, ok := strings.CutPrefix(i, module+"/"); ok && !slices.Contains(may, own) {
				t.Errorf("%s imports %s, but %s may import only %v", p, own, pkg, may)
			}
			for module, only := range onlyIn {
				if (i == module || strings.HasPrefix(i, module+"/")) && only != pkg {
					t.Errorf("%s imports %s, which only %s may", p, i, only)
				}
			}
		}
	})
}

// The table itself must not allow a cycle or a way round it: whatever a package may
// import stands below it.
func TestTheTableHasNoCycle(t *testing.T) {
	var visit func(pkg string, above []string)
	visit = func(pkg string, above []string) {
		if slices.Contains(above, pkg) {
			t.Fatalf("cycle: %v, %s", above, pkg)
		}
		for _, below := range mayImport[pkg] {
			visit(below, append(slices.Clone(above), pkg))
		}
	}
	for pkg := range mayImport {
		visit(pkg, nil)
	}
}

// docs/dependencies.md has a line for every module that our files import, and no other.
func TestDependenciesAreExplained(t *testing.T) {
	modules := required(t)
	used := map[string]bool{}
	eachFile(t, func(p string) {
		for _, i := range importsOf(t, p) {
			best := ""
			for _, m := range modules {
				if (i == m || strings.HasPrefix(i, m+"/")) && len(m) > len(best) {
					best = m
				}
			}
			if best != "" {
				used[best] = true
			}
		}
	})
	doc, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if explained := strings.Contains(string(doc), "| "+m+" |"); explained != used[m] {
			t.Errorf("docs/dependencies.md: %s is explained: %v, imported: %v", m, explained, used[m])
		}
	}
}

// required is every module that go.mod names.
func required(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && strings.HasPrefix(line, "\t") {
			all = append(all, f[0])
		}
	}
	return all
}

// eachFile calls fn for every Go file of the module.
func eachFile(t *testing.T, fn func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && notOurs(p):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(p, ".go"):
			fn(p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// importsOf parses in process instead of running go list: the test cache tracks files
// that a test opens, but not those that a child process reads.
func importsOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range f.Imports {
		i, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	return all
}
