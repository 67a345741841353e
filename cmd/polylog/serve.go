package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"polylog/cmd/polylog/config"
)

func newServe(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker",
		Long: "serve runs the broker until SIGINT or SIGTERM, which let connections finish first; a second\n" +
			"signal ends it at once. Log lines go to standard error, the addresses to standard output.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(cmd.Flags(), p.environ)
			if err != nil {
				return usageError{err}
			}
			defer tuneMemory(c)()
			return serve(cmd.Context(), c, p)
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

// serve runs a broker until ctx ends or it cannot go on.
func serve(ctx context.Context, c *config.Config, p *process) error {
	if err := checkFirstUser(c); err != nil {
		return err
	}
	log := newLogger(c, p.err)
	b := newBroker(ctx, c, log, func(err error) { die(p.err, explain(c.DataDir, err)) })
	err := b.start()
	if err == nil {
		err = announce(b, c, p)
	}
	if err == nil {
		<-b.ending.Done()
	}
	var asked stopRequest
	switch why := context.Cause(b.ending); {
	case errors.As(why, &asked):
		err = nil // also of a start that this has ended
		log.Info("stopping", "why", why, "timeout", c.ShutdownTimeout)
	case why == nil: // it did not start
	case errors.Is(why, context.Cause(ctx)):
		log.Info("stopping", "timeout", c.ShutdownTimeout)
	default:
		err = why
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownTimeout)
	defer cancel()
	err = errors.Join(err, b.close(stop))
	if err == nil {
		log.Info("stopped")
	}
	return explain(c.DataDir, err)
}

// announce says that the broker is ready, and where: to programs in the address file,
// to people on standard output.
func announce(b *broker, c *config.Config, p *process) error {
	if c.AddrFile != "" {
		if err := writeAddrFile(c.AddrFile, b.endpoints); err != nil {
			return err
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "polylog %s is ready, data in %s\n", build(), c.DataDir)
	for _, e := range b.endpoints {
		switch e.name {
		case "kafka":
			fmt.Fprintf(&text, "  kafka  %-22s try: polylog topic list --broker %s\n", e.addr, e.addr)
		case "amqp":
			fmt.Fprintf(&text, "  amqp   %-22s try: amqp://guest:guest@%s/\n", e.addr, e.addr)
		case "http":
			fmt.Fprintf(&text, "  http   %-22s try: curl http://%s/health/ready\n", e.addr, e.addr)
		default:
			fmt.Fprintf(&text, "  %-6s %s\n", e.name, e.addr)
		}
	}
	_, err := fmt.Fprint(p.out, text.String())
	return err
}
