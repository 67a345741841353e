package main

import (
	"github.com/spf13/cobra"

	"polylog/cmd/polylog/config"
)

func newConfig(p *process) *cobra.Command {
	reference := false
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration in force, or the reference of all settings",
		Long: "config takes the flags of serve, reads the environment and the file as serve does, and prints\n" +
			"the result as a configuration file.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reference {
				return writeReference(p.out)
			}
			c, err := config.Load(cmd.Flags(), p.environ)
			if err != nil {
				return usageError{err}
			}
			return c.WriteYAML(p.out)
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&reference, "reference", false, "print docs/configuration.md instead")
	return cmd
}
