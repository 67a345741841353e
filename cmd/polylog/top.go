package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/rest"
)

func newTop(p *process) *cobra.Command {
	a := &apiFlags{process: p}
	interval, once := 2*time.Second, false
	cmd := a.verb("top", "Watch rates, topics, queues, groups, connections and nodes", cobra.NoArgs, nil)
	cmd.Long = "top fills the terminal and looks again every --interval; q ends it. Rates are between two looks. Where the\n" +
		"output is no terminal each look is printed below the last one; --once ends after the first that has rates."
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if interval < 100*time.Millisecond {
			return usageError{fmt.Errorf("--interval: %v is less than 100ms", interval)}
		}
		return a.call(cmd.Context(), func(ctx context.Context, c *rest.Client) error {
			t := &top{apiFlags: a, client: c, interval: interval}
			if once || a.output == "json" {
				return t.once(ctx)
			}
			return t.run(ctx)
		})
	}
	a.add(cmd)
	addOutput(cmd, &a.output)
	cmd.Flags().DurationVarP(&interval, "interval", "i", interval, "time between two looks")
	cmd.Flags().BoolVar(&once, "once", false, "print what it is and end; so does -o json")
	return cmd
}

// top looks at a broker again and again.
type top struct {
	*apiFlags
	client   *rest.Client
	interval time.Duration
	last     *look
}

// next looks, and works out rates since the last time. nil: there was no last time.
func (t *top) next(ctx context.Context) (*view, error) {
	l, err := takeLook(ctx, t.client)
	if err != nil {
		return nil, err
	}
	was := t.last
	t.last = l
	if was == nil {
		return nil, nil //nolint:nilnil // a rate takes two looks
	}
	return l.since(was), nil
}

// once shows the first look that has rates.
func (t *top) once(ctx context.Context) error {
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	for {
		v, err := t.next(ctx)
		if err != nil {
			return err
		}
		if v != nil {
			return t.show(v, func(w io.Writer) { _, _ = io.WriteString(w, strings.Join(v.lines(0), "\n")+"\n") })
		}
		if !wait(ctx, tick.C, nil) {
			return ctx.Err()
		}
	}
}

// run shows looks until it is asked to stop. A broker that does not answer is said to, and asked again.
func (t *top) run(ctx context.Context) error {
	s, err := openScreen(t.process)
	if err != nil {
		return err
	}
	defer s.close()
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	shown := []string{"looking…"}
	for {
		v, err := t.next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && t.last == nil: // nobody is there
			return err
		case err != nil:
			shown = append([]string{"polylog top: " + printable(err.Error()), ""}, shown...)
		case v != nil:
			shown = v.lines(s.height())
		}
		if err := s.draw(shown); err != nil {
			return err
		}
		if err != nil { // the next one shall not grow
			shown = shown[2:]
		}
		if !wait(ctx, tick.C, s.quit) {
			return nil
		}
	}
}

// wait is false when it is over before the tick.
func wait(ctx context.Context, tick <-chan time.Time, quit <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-quit:
		return false
	case <-tick:
		return true
	}
}
