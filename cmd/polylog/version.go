package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version and revision are stamped by the Makefile; a plain go build leaves them, and
// the revision is then what Go knows of the checkout.
var (
	version  = "development"
	revision = ""
)

// build is the version of this binary, in words.
func build() string {
	rev := revision
	if info, ok := debug.ReadBuildInfo(); ok && rev == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				rev = s.Value
			}
		}
	}
	if rev != "" {
		rev = " (" + rev[:min(12, len(rev))] + ")"
	}
	return version + rev
}

func newVersion(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.out, "polylog %s, %s, %s/%s\n", build(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
