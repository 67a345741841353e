package polylog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testNamed is a test in a table of docs: the folder of its package, then its name.
var testNamed = regexp.MustCompile("`([a-z/]+)` `(Test[A-Za-z0-9]+)`")

// TestDocsNameTests looks for each test by which the tables of these documents claim something.
func TestDocsNameTests(t *testing.T) {
	for path, rows := range map[string]int{"docs/kafka-known-bugs.md": 13, "docs/mqtt-known-bugs.md": 20, "docs/http-known-bugs.md": 13, "docs/raft-scenarios.md": 10} {
		t.Run(path, func(t *testing.T) { checkTable(t, path, rows) })
	}
}

// checkTable looks for the tests in each row of a document's tables, which has at least so many.
func checkTable(t *testing.T, path string, atLeast int) {
	t.Helper()
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, header := 0, true
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "|") {
			header = true // of the next table
			continue
		}
		if header {
			header = !strings.HasPrefix(line, "| ---")
			continue
		}
		rows++
		named := testNamed.FindAllStringSubmatch(line, -1)
		if n := strings.Count(line, "`Test"); n == 0 || n != len(named) {
			t.Errorf("%d tests of %d are named with their package: %s", len(named), n, line)
		}
		for _, m := range named {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s has no %s, which is named in: %s", m[1], m[2], line)
			}
		}
	}
	if rows < atLeast {
		t.Errorf("%d rows, want %d or more", rows, atLeast)
	}
}

// hasTest reports whether a folder's tests declare a function of that name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// checkNamed is a check in a table of docs: where it is, and its name.
var checkNamed = regexp.MustCompile("(probe|survivor) `([^`]+)`")

// TestDocsNameChecks looks for each check by which docs/amqp-known-bugs.md claims something.
func TestDocsNameChecks(t *testing.T) {
	doc, err := os.ReadFile("docs/amqp-known-bugs.md")
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]string{"probe": sources(t, "compat-tests/amqp/probe"), "survivor": sources(t, "compat-tests/amqp/crash")}
	named := checkNamed.FindAllStringSubmatch(string(doc), -1)
	for _, m := range named {
		if !strings.Contains(checks[m[1]], `"`+m[2]+`"`) {
			t.Errorf("there is no %s %q", m[1], m[2])
		}
	}
	if len(named) < 11 {
		t.Errorf("%d checks, want 11 or more", len(named))
	}
}

// sources is the text of a folder's Go files.
func sources(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
