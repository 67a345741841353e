package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxTypos is how many letters may be wrong in what is suggested instead.
const maxTypos = 2

// verbUnknown refuses the arguments of a command that only has others below it.
func verbUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := ""
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		text = "; did you mean: " + strings.Join(like, ", ")
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), text)
}

// flagWrong adds the flag that was probably meant to the error about one that is not there.
func flagWrong(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name, best, least := unknown.GetSpecifiedName(), "", maxTypos+1
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := typos(name, f.Name); d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	if best == "" || len(name) <= maxTypos {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	}
	return fmt.Errorf("%w; did you mean: --%s", err, best)
}

// typos is how many letters have to be put in, taken out or changed to make b of a (Levenshtein).
func typos(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := corner
			if a[i] != b[j] {
				d++
			}
			corner = row[j+1]
			row[j+1] = min(d, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}
