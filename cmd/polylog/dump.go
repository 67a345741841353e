package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"polylog/core"
	"polylog/core/commitlog"
	"polylog/core/vfs"
	"polylog/router/state"
)

func newDump(p *process) *cobra.Command {
	var from, to uint64
	headers := false
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Print the log: segments, entries and what their commands say",
		Long: "dump prints the log of a data directory for people to read. It changes nothing and takes no\n" +
			"lock; of a log that is being written it shows the end as it was found.",
		Args: cobra.NoArgs,
	}
	dir := dataDirFlag(cmd)
	cmd.Flags().Uint64Var(&from, "from", 0, "first entry")
	cmd.Flags().Uint64Var(&to, "to", 0, "last entry; 0 is the last there is")
	cmd.Flags().BoolVar(&headers, "headers", false, "only the entries' headers: much faster")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := existing(*dir); err != nil {
			return err
		}
		o := commitlog.DumpOptions{From: core.LogIndex(from), To: core.LogIndex(to)}
		if !headers {
			o.Decode = describeEntry
		}
		out := bufio.NewWriter(p.out)
		err := commitlog.Dump(vfs.Default, filepath.Join(*dir, logDir), out, o)
		return errors.Join(err, out.Flush())
	}
	return cmd
}

// typeCommands is raft's type of the entries that hold commands. It is in every log on
// disk.
const typeCommands = 0

// describeEntry prints the commands of an entry, one a line.
func describeEntry(w io.Writer, e commitlog.Entry) error {
	if e.Type != typeCommands {
		return nil
	}
	entry := core.Entry{Index: e.Index, Term: e.Term, Data: e.Data}
	if _, err := fmt.Fprintf(w, "    time %d\n", entry.Time()); err != nil {
		return err
	}
	var failed error
	err := entry.Commands(func(code core.Code, body []byte, pos uint32) {
		if _, err := fmt.Fprintf(w, "    %d: %s\n", pos, state.Describe(code, body)); err != nil {
			failed = err
		}
	})
	if err != nil { // a person looking for damage wants to see what follows, too
		_, failed = fmt.Fprintf(w, "    %v\n", err)
	}
	return failed
}
