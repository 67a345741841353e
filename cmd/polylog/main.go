// Command polylog is the broker and the tools around it, in one binary.
//
// Exit codes: 0 done, 1 it failed, 2 it was called wrongly. A failure is one line on
// standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// process is what a verb sees of the world, so that tests can give it another one.
type process struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
}

// env is a variable of the environment; "" where it is not set.
func (p *process) env(name string) (value string) {
	for _, kv := range p.environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for a graceful end. From then on the default action is
	// back, so that a second one ends the process at once.
	context.AfterFunc(ctx, cancel)
	os.Exit(run(ctx, process{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ()}, os.Args[1:]))
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, p process, args []string) int {
	root := newRoot(&p)
	called := false // whether a verb was reached, past the parsing of its arguments
	noteCalls(root, &called)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var wrong usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong) || !called:
		complain(p.err, err)
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		complain(p.err, errors.New("interrupted"))
		return exitFailed
	default:
		complain(p.err, err)
		return exitFailed
	}
}

func newRoot(p *process) *cobra.Command {
	root := &cobra.Command{
		Use:           "polylog",
		Short:         "A message broker on one replicated log",
		Version:       build(),
		RunE:          verbMissing,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.AddCommand(newServe(p), newTopic(p), newPub(p), newSub(p), newGroup(p), newUser(p), newQueue(p), newSubscription(p), newDLQ(p), newHook(p),
		newExchange(p), newBinding(p), newNamespace(p), newMsg(p), newConnections(p), newSession(p), newExport(p), newImport(p), newBench(p), newTop(p), newDoctor(p), newCluster(p), newDump(p), newCheck(p), newConfig(p), newVersion(p))
	root.SetFlagErrorFunc(flagWrong)
	root.SetVersionTemplate("polylog {{.Version}}\n")
	sayUsage(root)
	return root
}

// verbMissing is what a command does that only has others below it.
func verbMissing(cmd *cobra.Command, _ []string) error {
	return usageError{fmt.Errorf("a verb is missing; see %s --help", cmd.CommandPath())}
}

// sayUsage has every verb below cmd name what it wants when its arguments are wrong.
func sayUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil && !cmd.HasSubCommands() {
		cmd.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil {
				return nil
			}
			what := "an argument is missing"
			if len(args) > 0 {
				what = fmt.Sprintf("unexpected argument %q", args[len(args)-1])
			}
			return fmt.Errorf("%s; usage: %s", what, c.UseLine())
		}
	}
	if cmd.HasSubCommands() && cmd.HasParent() {
		cmd.SuggestionsMinimumDistance = maxTypos
		cmd.Args = verbUnknown
	}
	for _, sub := range cmd.Commands() {
		sayUsage(sub)
	}
}

// noteCalls has every verb below cmd set called before it does anything.
func noteCalls(cmd *cobra.Command, called *bool) {
	if do := cmd.RunE; do != nil {
		cmd.RunE = func(c *cobra.Command, args []string) error {
			*called = true
			return do(c, args)
		}
	}
	for _, sub := range cmd.Commands() {
		noteCalls(sub, called)
	}
}

// usageError is a mistake of the caller that shows only while a verb runs.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// complain prints err as one line.
func complain(w io.Writer, err error) {
	hint := strings.NewReplacer("\n\nDid you mean this?\n\t", "; did you mean: ", "\n\t", ", ")
	text := strings.Join(strings.FieldsFunc(hint.Replace(err.Error()), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	_, _ = fmt.Fprintln(w, "polylog: "+text) // there is nowhere left to complain to
}

// die ends the process on the spot. It is for failures after which not even an orderly
// stop may touch the disk.
func die(w io.Writer, err error) {
	complain(w, err)
	os.Exit(exitFailed)
}
