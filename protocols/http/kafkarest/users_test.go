package kafkarest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"polylog/router"
	"polylog/router/routertest"
)

// as calls as a user, and returns the status and the body.
func (f *fixture) as(user, method, path, contentType, body string) (int, string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.SetBasicAuth(user, "pw-"+user)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}

// TestStreamAfterUser ends a stream of records when its user gets another password.
func TestStreamAfterUser(t *testing.T) {
	f := start(t, nil)
	f.topic("d", 1, nil)
	routertest.AddUser(t, f.router, "admin", router.TagAdministrator)
	routertest.AddUser(t, f.router, "dev")
	routertest.Grant(t, f.router, "dev", "", "^d", "^d")
	in, out := io.Pipe()
	defer out.Close() //nolint:errcheck // nobody reads
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/v3/clusters/any/topics/d/records", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth("dev", "pw-dev")
	go io.WriteString(out, `{"value":{"type":"STRING","data":"a"}}`) //nolint:errcheck // its answer says more
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	answers := json.NewDecoder(resp.Body)
	var a storedJSON
	if err := answers.Decode(&a); err != nil || a.ErrorCode != 200 {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := f.router.SetUser(t.Context(), routertest.Admin(t, f.router), "dev", router.UserChange{Password: new("other")}); err != nil {
		t.Fatal(err)
	}
	var r refusal
	if err := answers.Decode(&r); err != nil || r.Code != codeUnauthorized {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestUsers has calls and consumer instances do what their caller may.
func TestUsers(t *testing.T) {
	f := start(t, nil)
	f.do(200, "POST", "/topics/d", jsonV2, `{"records":[{"value":"first"}]}`)
	routertest.AddUser(t, f.router, "admin", router.TagAdministrator)
	routertest.AddUser(t, f.router, "dev")
	routertest.Grant(t, f.router, "dev", "", "^d", "^d")
	f.refused(codeUnauthorized, "GET", "/topics", "", "")
	want := func(status int, user, method, path, contentType, body, text string) {
		t.Helper()
		if got, answer := f.as(user, method, path, contentType, body); got != status || !strings.Contains(answer, text) {
			t.Fatalf("%s %s: %d %s, want %d with %s", method, path, got, answer, status, text)
		}
	}
	want(401, "eve", "GET", "/topics", "", "", `Www-Authenticate: Basic`)
	want(200, "dev", "GET", "/topics", "", "", `["d"]`)
	want(200, "dev", "POST", "/topics/d", jsonV2, `{"records":[{"value":"second"}]}`, `"offset":1`)
	want(403, "dev", "POST", "/consumers/other", v2, `{"name":"one","format":"json"}`, "40301")
	want(200, "dev", "POST", "/consumers/done", v2, `{"name":"one","format":"json","auto.offset.reset":"earliest"}`, "one")
	in := "/consumers/done/instances/one"
	want(404, "admin", "GET", in+"/records", "", "", "40403")
	want(204, "dev", "POST", in+"/subscription", v2, `{"topics":["d"]}`, "")
	want(200, "dev", "GET", in+"/records?timeout=60000", "", "", "first")
	// With another password it goes on, as soon as its client has come by that.
	if _, err := f.router.SetUser(t.Context(), routertest.Admin(t, f.router), "dev", router.UserChange{Password: new("other")}); err != nil {
		t.Fatal(err)
	}
	want(401, "dev", "GET", in+"/records", "", "", "")
	if _, err := f.router.SetUser(t.Context(), routertest.Admin(t, f.router), "dev", router.UserChange{Password: new("pw-dev")}); err != nil {
		t.Fatal(err)
	}
	want(204, "dev", "DELETE", in, v2, "", "")
}
