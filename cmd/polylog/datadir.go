package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"polylog/cluster"
	"polylog/cmd/polylog/config"
	"polylog/core/vfs"
)

// The parts of a data directory that the offline verbs look into; cluster's Home has
// the whole layout.
const (
	logDir   = "log"
	indexDir = "index"
)

// dataDirFlag is the flag of the verbs that look into a data directory by themselves.
func dataDirFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("data-dir", config.Default().DataDir, "data directory")
}

// existing refuses a directory that no broker has ever used: opening one for a broker
// would make it.
func existing(dir string) error {
	_, err := os.Stat(filepath.Join(dir, "meta"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not a polylog data directory: it has no meta file", dir)
	}
	return err
}

// lockExisting locks a data directory that exists.
func lockExisting(dir string) (*cluster.Home, error) {
	if err := existing(dir); err != nil {
		return nil, err
	}
	return cluster.OpenHome(vfs.Default, dir, "")
}
