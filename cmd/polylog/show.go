package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// How verbs show what they found: as a table for people, or as JSON for programs.

// addOutput adds -o to a verb.
func addOutput(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "output", "o", "table", "table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// checkOutput refuses what -o does not know.
func checkOutput(format string) error {
	if format != "" && format != "table" && format != "json" {
		return usageError{fmt.Errorf("output %q is neither table nor json", format)}
	}
	return nil
}

// show writes v as JSON, or as a table, whose cells have tabs between them.
func show(out io.Writer, format string, v any, table func(io.Writer)) error {
	if format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush() // reports what the writes before it met
}

// row writes one row of a table.
func row(w io.Writer, cells ...any) {
	for i, c := range cells {
		if i > 0 {
			_, _ = io.WriteString(w, "\t") // a tabwriter repeats its error at Flush
		}
		_, _ = io.WriteString(w, printable(fmt.Sprint(c)))
	}
	_, _ = io.WriteString(w, "\n")
}

// printable is a text in which nothing moves a terminal's cursor: names may have any characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
}
