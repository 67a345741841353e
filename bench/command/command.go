// Package command is what the benchmarks' commands have in common.
package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// Main runs a benchmark until it ends or is interrupted; an error ends the process.
func Main(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	End(err)
}

// End ends the process where there is an error.
func End(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Wanted reports whether a comma-separated list has a name; an empty one has all.
func Wanted(list, name string) bool {
	return list == "" || strings.Contains(","+list+",", ","+name+",")
}

// Absolute makes paths absolute.
func Absolute(paths ...*string) error {
	for _, p := range paths {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	return nil
}
