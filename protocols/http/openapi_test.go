package httpd

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"polylog/protocols/http/front"
)

// described is the description of the interface, and a mux that finds a path's template.
var described = sync.OnceValues(func() (*openapi3.T, *front.Mux[string]) {
	text, err := openAPIJSON()
	if err != nil {
		panic(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		panic(err)
	}
	templates := &front.Mux[string]{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			templates.Handle(method, path, path)
			templates.Handle(method, strings.Replace(path, "/v1/", "/v1/namespaces/{namespace}/", 1), path)
		}
	}
	return doc, templates
})

// The description has every call, and no other.
func TestOpenAPIHasEveryCall(t *testing.T) {
	doc, _ := described()
	var got, want []string
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			got = append(got, method+" "+path)
			if op.OperationID == "" || op.Responses.Default() == nil {
				t.Errorf("%s %s has no name, or no problem", method, path)
			}
		}
	}
	for _, c := range calls {
		want = append(want, c.method+" /v1"+c.path)
	}
	for _, c := range userCalls {
		want = append(want, c.method+" "+c.path)
	}
	for _, c := range adminCalls {
		want = append(want, c.method+" "+c.path)
	}
	want = append(want, "GET /v1/namespaces", "PUT /v1/namespaces/{namespace}", "DELETE /v1/namespaces/{namespace}")
	for _, path := range []string{"/hooks/{hook}", "/hooks/{hook}/{of}"} {
		want = append(want, "POST "+path, "OPTIONS "+path)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("described:\n%s\nserved:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s := newSite(t, nil, nil)
	s.do("GET", "/openapi.json", "").want(t, 200, `"openapi"`, "3.1.0")
}

// asDescribed fails the test unless an answer of the data plane is as the description says.
// Every answer in the tests of this package comes by here.
func asDescribed(t *testing.T, method, path string, r reply) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	if !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/hooks/") {
		return
	}
	doc, templates := described()
	methods, _, err := templates.Find(path)
	var response *openapi3.ResponseRef
	if template, ok := methods[method]; err == nil && ok {
		op := doc.Paths.Value(template).GetOperation(method)
		if response = op.Responses.Status(r.status); response == nil {
			response = op.Responses.Default()
		}
	} else {
		response = doc.Components.Responses["Problem"]
	}
	kind := r.header.Get("Content-Type")
	media := response.Value.Content.Get(kind)
	switch {
	case r.body == "" && len(response.Value.Content) == 0:
		return
	case media == nil:
		t.Fatalf("%s %s: %d with %q, which is not described", method, path, r.status, kind)
	}
	var v any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, r.body)
	}
	if err := media.Schema.Value.VisitJSON(v); err != nil {
		t.Fatalf("%s %s: %d: %v", method, path, r.status, err)
	}
}

// The check itself can fail.
func TestAnswersAreChecked(t *testing.T) {
	doc, _ := described()
	schema := doc.Components.Schemas["Message"].Value
	good := map[string]any{"id": "0-1", "partition": 0.0, "offset": 1.0, "timestamp": "2026-01-01T00:00:00Z"}
	if err := schema.VisitJSON(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []map[string]any{{"id": 5.0}, {"partition": "0"}, {"more": 1.0}} {
		for k, v := range good {
			if bad[k] == nil {
				bad[k] = v
			}
		}
		if schema.VisitJSON(bad) == nil {
			t.Errorf("%v passes", bad)
		}
	}
}
