package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secretFile is a file with a password.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestUserVerbs(t *testing.T) {
	s := start(t, t.TempDir())
	// Whom to ask may be several, as for every other verb.
	if out := must(t, "secret\n", "user", "add", "root", "--tag", "administrator", "-s", "127.0.0.1:1,"+s.http); !strings.Contains(out, "everybody has to log in from now on") {
		t.Error(out)
	}
	as := []string{"-s", s.http, "-u", "root", "--user-password-file", secretFile(t, "secret")}
	do := func(in string, args ...string) string { t.Helper(); return must(t, in, append(args, as...)...) }
	if out := do("", "user", "list"); !strings.Contains(out, `root  administrator  default    ".*"       ".*"   ".*"`) {
		t.Error(out)
	}
	do("x\n", "user", "add", "dev")
	do("", "user", "grant", "dev", "--read", "^a", "--write", "^b")
	do("", "user", "tag", "dev", "monitoring", "x")
	if out := do("", "user", "list", "-o", "json"); !strings.Contains(out, `"read": "^a"`) || strings.Contains(out, "secret") {
		t.Error(out)
	}
	do("", "user", "password", "dev", "--password-file", secretFile(t, "y"))
	for _, tc := range []struct {
		want, in string
		args     []string
	}{
		{"this broker has users: log in (see --user)", "", []string{"user", "list", "-s", s.http}},
		{"the user or the password is wrong", "", []string{"user", "list", "-s", s.http, "-u", "dev", "--user-password-file", secretFile(t, "x")}},
		{`user "dev" may not look at users`, "", []string{"user", "list", "-s", s.http, "-u", "dev", "--user-password-file", secretFile(t, "y")}},
		{`user "dev" exists already`, "z", append([]string{"user", "add", "dev"}, as...)},
		{"the password of eve, of standard input or --password-file: the first line is empty", "", append([]string{"user", "add", "eve"}, as...)},
		{"the password of root, of standard input or --user-password-file: the first line is empty", "", []string{"user", "list", "-s", s.http, "-u", "root"}},
		{`user "dev" is not the last`, "", append([]string{"user", "delete", "dev", "--last"}, as...)},
		{"is the last administrator", "", append([]string{"user", "delete", "root"}, as...)},
		{"does not exist", "", append([]string{"user", "revoke", "eve"}, as...)},
	} {
		if code, _, errs := call(t, tc.in, tc.args...); code != exitFailed || !strings.Contains(errs, tc.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: %d, %s", tc.args, code, errs)
		}
	}
	if code, _, errs := call(t, "", append([]string{"user", "grant", "dev"}, as...)...); code != exitUsage || !strings.Contains(errs, "which rights?") {
		t.Errorf("%d, %s", code, errs)
	}
	verbsLogIn(t, s, as[2:])
	do("", "user", "revoke", "dev")
	do("", "user", "delete", "dev")
	do("", "user", "delete", "root", "--last")
	must(t, "", "topic", "list", "--broker", s.kafka)
}

// verbsLogIn has verbs over Kafka and over HTTP log in.
func verbsLogIn(t *testing.T, s *served, as []string) {
	t.Helper()
	over := func(listener ...string) func(in string, args ...string) string {
		return func(in string, args ...string) string {
			t.Helper()
			return must(t, in, append(append(args, listener...), as...)...)
		}
	}
	kafka, http := over("-b", s.kafka), over("-s", s.http)
	kafka("", "topic", "create", "t")
	kafka("hello\n", "pub", "t")
	if out := kafka("", "sub", "t", "--from", "start", "-n", "1"); !strings.Contains(out, "hello") {
		t.Error(out)
	}
	// What the broker has checked is no less readable to Kafka's clients.
	http(`{"value": "vouched for", "userId": "root"}`, "import", "t")
	if out := kafka("", "sub", "t", "--from", "start", "-n", "2"); !strings.Contains(out, "vouched for") {
		t.Error(out)
	}
	if code, _, errs := call(t, `{"value": "x", "userId": "dev"}`, append([]string{"import", "t", "-s", s.http}, as...)...); code != exitFailed || !strings.Contains(errs, "may not publish as user") {
		t.Errorf("%d, %s", code, errs)
	}
	kafka("", "group", "list")
	must(t, "", append([]string{"bench", "produce", "t", "-n", "10", "-c", "2", "--protocol", "kafka", "-b", s.kafka, "-s", s.http}, as...)...)
	if out := http("", "msg", "find", "t"); !strings.Contains(out, "hello") {
		t.Error(out)
	}
	wrong := secretFile(t, "wrong")
	for _, tc := range []struct {
		want string
		args []string
	}{
		{"log in (see --user)", []string{"topic", "list", "-b", s.kafka}},
		{"the user or the password is wrong", []string{"topic", "list", "-b", s.kafka, "-u", "root", "--user-password-file", wrong}},
		{"the user or the password is wrong", []string{"msg", "find", "t", "-s", s.http, "-u", "root", "--user-password-file", wrong}},
	} {
		if code, _, errs := call(t, "", tc.args...); code != exitFailed || !strings.Contains(errs, tc.want) {
			t.Errorf("%v: %d, %s", tc.args, code, errs)
		}
	}
	if code, _, errs := call(t, "x", "pub", "t", "-b", s.kafka, "-u", "root"); code != exitUsage || !strings.Contains(errs, "where is the password of root?") {
		t.Errorf("%d, %s", code, errs)
	}
}

// A first user's password that cannot be had is found before a node begins its data directory.
func TestFirstPasswordIsChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for want, file := range map[string]string{"the first line is empty": secretFile(t, ""), "no such file": filepath.Join(t.TempDir(), "none")} {
		if code, _, errs := call(t, "", "serve", "--data-dir", dir, "--first-user-password-file", file); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%d, %s", code, errs)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// The first user is made by the settings, before anybody is served, and once.
func TestFirstUser(t *testing.T) {
	dir := t.TempDir()
	file := secretFile(t, "secret")
	s := start(t, dir, "--first-user-password-file", file, "--first-user", "boss")
	if code, _ := get(t, "http://"+s.http+"/v1/topics"); code != 401 {
		t.Fatalf("%d", code)
	}
	if out := must(t, "", "user", "list", "-s", s.http, "-u", "boss", "--user-password-file", file); !strings.Contains(out, `boss  administrator  default    ".*"`) {
		t.Error(out) // with its rights, by one command
	}
	as := []string{"-s", s.http, "-u", "boss", "--user-password-file", file}
	must(t, "other\n", append([]string{"user", "password", "boss"}, as...)...)
	s.end(t)
	s = start(t, dir, "--first-user-password-file", file, "--first-user", "boss")
	must(t, "", "user", "list", "-s", s.http, "-u", "boss", "--user-password-file", secretFile(t, "other"))
	if strings.Contains(s.err.String(), "there are users from now on") {
		t.Error("it was made twice")
	}
}

// Verbs that go on end, and say why, when their user may not log in any more. They leave it at that
// before they shut others out who are at the same address.
func TestVerbsEndWithTheirUser(t *testing.T) {
	s := start(t, t.TempDir())
	must(t, "secret\n", "user", "add", "root", "--tag", "administrator", "-s", s.http)
	root := []string{"-u", "root", "--user-password-file", secretFile(t, "secret")}
	admin := func(in string, args ...string) {
		t.Helper()
		must(t, in, append(append(args, "-s", s.http), root...)...)
	}
	must(t, "one\n", append([]string{"pub", "t", "-b", s.kafka}, root...)...)
	const why = "the broker refuses to log in again: the user or the password is wrong"
	for name, verb := range map[string][]string{
		"sub":       {"sub", "t", "--from", "start"},
		"sub group": {"sub", "t", "--from", "start", "-g", "g"},
	} {
		admin("x\n", "user", "add", "dev")
		admin("", "user", "grant", "dev", "--all")
		file := secretFile(t, "x")
		as := []string{"-b", s.kafka, "-u", "dev", "--user-password-file", file}
		out := &firstWrite{output: &output{}, seen: make(chan struct{})}
		var errs output
		code := make(chan int, 1)
		go func() { code <- run(t.Context(), process{out: out, err: &errs}, append(verb, as...)) }()
		<-out.seen
		admin("y\n", "user", "password", "dev")
		if c := <-code; c != exitFailed || !strings.Contains(errs.String(), why) {
			t.Errorf("%s: %d, %s", name, c, errs.String())
		}
		// The budget of wrong passwords is not used up.
		must(t, "two\n", "pub", "t", "-b", s.kafka, "-u", "dev", "--user-password-file", secretFile(t, "y"))
		admin("", "user", "delete", "dev")
	}

	admin("x\n", "user", "add", "dev")
	admin("", "user", "grant", "dev", "--all")
	lines, feed := io.Pipe()
	var errs output
	code := make(chan int, 1)
	go func() {
		args := []string{"pub", "t", "-b", s.kafka, "-u", "dev", "--user-password-file", secretFile(t, "x")}
		code <- run(t.Context(), process{in: lines, out: &output{}, err: &errs}, args)
	}()
	// A line is taken when the verb has logged in.
	if _, err := io.WriteString(feed, "three\n"); err != nil {
		t.Fatal(err)
	}
	admin("", "user", "delete", "dev")
	go func() { // until the verb reads no more
		for {
			if _, err := io.WriteString(feed, "four\n"); err != nil {
				return
			}
		}
	}()
	if c := <-code; c != exitFailed || !strings.Contains(errs.String(), why) {
		t.Errorf("%d, %s", c, errs.String())
	}
	_ = lines.Close()
}

// Whose hooks and webhooks are refused can be seen, and that they are.
func TestRefusedHooksAreShown(t *testing.T) {
	s := start(t, t.TempDir(), "--webhook-allow", "127.0.0.0/8")
	must(t, "secret\n", "user", "add", "root", "--tag", "administrator", "-s", s.http)
	login := []string{"-u", "root", "--user-password-file", secretFile(t, "secret")}
	root := append([]string{"-s", s.http}, login...)
	carl := []string{"-s", s.http, "-u", "carl", "--user-password-file", secretFile(t, "x")}
	do := func(as []string, in string, args ...string) string {
		t.Helper()
		return must(t, in, append(args, as...)...)
	}
	do(root, "x\n", "user", "add", "carl")
	do(root, "", "user", "grant", "carl", "--all")
	do(login, "m\n", "pub", "in", "-b", s.kafka)
	do(carl, "", "hook", "create", "h", "-t", "in", "-p", "bearer")
	do(carl, "", "subscription", "create", "w", "-t", "in", "--push", "http://127.0.0.1:1/")
	has(t, do(root, "", "hook", "list"), "carl   active  /hooks/h")
	has(t, do(root, "", "hook", "describe", "h"), "owner             carl\n", "state             active\n")
	has(t, do(root, "", "doctor"), "all 1 store what comes")
	do(root, "", "user", "grant", "carl", "--read", "^none$")
	has(t, do(root, "", "hook", "list"), "carl   refused  /hooks/h")
	const write, read = `user "carl" may not write to topic in`, `user "carl" may not read group w`
	has(t, do(root, "", "hook", "describe", "h"), "state             refused\n", "refused           "+write)
	has(t, do(root, "", "subscription", "describe", "w"), "carl\n", "refused\n", read)
	code, out, _ := call(t, "", append([]string{"doctor"}, root...)...)
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	has(t, out, "nothing is stored for its owner carl: "+write, "nothing is sent for its owner carl: "+read)
}

// Who shows no user is let in no more when there is one.
func TestVerbsEndWhenThereAreUsers(t *testing.T) {
	s := start(t, t.TempDir())
	must(t, "one\n", "pub", "t", "-b", s.kafka)
	out := &firstWrite{output: &output{}, seen: make(chan struct{})}
	var errs output
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), process{out: out, err: &errs}, []string{"sub", "t", "--from", "start", "-b", s.kafka})
	}()
	<-out.seen
	must(t, "secret\n", "user", "add", "root", "--tag", "administrator", "-s", s.http)
	if c := <-code; c != exitFailed || !strings.Contains(errs.String(), "if it has users, log in (see --user)") {
		t.Errorf("%d, %s", c, errs.String())
	}
}
