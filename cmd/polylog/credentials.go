package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"polylog/cmd/polylog/config"
)

// credentials are whom a verb logs in as; nobody where the broker has no users.
type credentials struct {
	process  *process
	user     string
	passFile string
	// piped says that the password may come over standard input without being asked for: other verbs
	// read something else there.
	piped bool

	mu    sync.Mutex
	known bool   // password is what was read, or given
	pass  string // guarded by mu, as known is
}

func (c *credentials) add(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVarP(&c.user, "user", "u", "", "user to log in as, where the broker has users (environment: "+config.UserEnv+")")
	f.StringVar(&c.passFile, "user-password-file", "", "file with that user's password in its first line; without it you are asked (environment: "+config.PasswordFileEnv+")")
}

// silent reports whether get asks nobody for anything. Without credentials nothing does.
func (c *credentials) silent() bool {
	if c == nil {
		return true
	}
	user, file := c.named()
	return user == "" || file != "" && file != "-"
}

// named is the user, and the file of its password.
func (c *credentials) named() (user, file string) {
	env := func(name string) string {
		for _, kv := range c.process.environ {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
	return cmp.Or(c.user, env(config.UserEnv)), cmp.Or(c.passFile, env(config.PasswordFileEnv))
}

// get is the user and its password; empty where there is to be none.
func (c *credentials) get() (user, password string, err error) {
	user, file := c.named()
	switch {
	case user == "" && c.passFile != "":
		return "", "", usageError{errors.New("--user-password-file: of which user? see --user")}
	case user == "":
		return "", "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.known:
		return user, c.pass, nil
	case file == "" && !c.piped && !isTerminal(c.process.in):
		return "", "", usageError{fmt.Errorf("where is the password of %s? see --user-password-file, or %s", user, config.PasswordFileEnv)}
	}
	if c.pass, err = c.process.password(file, "Password of "+user, false); err != nil {
		return "", "", passwordOf(user, "--user-password-file", err)
	}
	c.known = true
	return user, c.pass, nil
}

func isTerminal(in io.Reader) bool {
	tty, ok := in.(*os.File)
	return ok && term.IsTerminal(int(tty.Fd()))
}

// maxPasswordLine bounds a line with a password, in bytes.
const maxPasswordLine = 4 << 10

// password is the first line of a file; of standard input where that is "-" or empty. At a terminal
// it is asked for, twice where it is new. It is never an argument: others on the machine see those.
func (p *process) password(file, prompt string, isNew bool) (string, error) {
	in := p.in
	switch {
	case file != "" && file != "-":
		return firstLineOf(file)
	case isTerminal(in):
		return p.ask(in.(*os.File), prompt, isNew)
	}
	return firstLine(in)
}

// firstLineOf is the password in a file.
func firstLineOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := firstLine(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

func firstLine(in io.Reader) (string, error) {
	text, err := bufio.NewReader(io.LimitReader(in, maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if text = strings.TrimRight(text, "\r\n"); text == "" {
		return "", errors.New("the first line is empty")
	}
	return text, nil
}

// ask asks for a password, which is not shown.
func (p *process) ask(tty *os.File, prompt string, twice bool) (string, error) {
	read := func(prompt string) (string, error) {
		if _, err := fmt.Fprint(p.err, prompt+": "); err != nil {
			return "", err
		}
		text, err := term.ReadPassword(int(tty.Fd()))
		_, _ = fmt.Fprintln(p.err)
		return string(text), err
	}
	first, err := read(prompt)
	if err != nil || !twice {
		return first, err
	}
	again, err := read("Once more")
	if err == nil && again != first {
		err = errors.New("the two passwords are not the same")
	}
	return first, err
}
