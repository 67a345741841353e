package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polylog/cluster/peer"
	"polylog/cmd/polylog/config"
	"polylog/core"
	"polylog/core/certs"
	"polylog/router/admin"
)

const defaultNode = "127.0.0.1:7420"

// nodeFlags are the flags of the verbs that speak to a node by its node-to-node listener.
type nodeFlags struct {
	process *process
	addrs   config.Addresses
	tls     certs.Files
	timeout time.Duration
	output  string
}

func newCluster(p *process) *cobra.Command {
	n := &nodeFlags{process: p}
	cmd := &cobra.Command{
		Use: "cluster", Short: "Show a cluster and its health, remove and stop nodes, back up and restore",
		Long: "cluster speaks to any node of a cluster by its node-to-node listener (node-listen). A node joins\n" +
			"by itself: polylog serve --node-id ID --node-listen ADDR --join ADDR.",
		Args: cobra.NoArgs, RunE: verbMissing,
	}
	f := cmd.PersistentFlags()
	f.VarP(addressesFlag{&n.addrs}, "node", "n", "node-to-node address of a node, or several with commas (environment: "+config.NodeEnv+"; default "+defaultNode+")")
	f.StringVar(&n.tls.Cert, "node-tls-cert", "", "PEM file with a certificate that the nodes accept, where they have node-tls-cert")
	f.StringVar(&n.tls.Key, "node-tls-key", "", "PEM file with its key")
	f.StringVar(&n.tls.CA, "node-tls-ca", "", "PEM file with the authorities that sign the nodes' certificates")
	f.DurationVar(&n.timeout, "timeout", 30*time.Second, "how long to wait for an answer; remove and drain try again until then")
	cmd.AddCommand(clusterAdd(), clusterInfo(n), clusterHealth(n), clusterRemove(n), clusterDrain(n), clusterBackup(n), clusterRestore(p))
	return cmd
}

// addressesFlag is a config.Addresses as a flag.
type addressesFlag struct{ *config.Addresses }

// Set implements pflag.Value.
func (f addressesFlag) Set(text string) error { return f.UnmarshalText([]byte(text)) }

// Type implements pflag.Value.
func (addressesFlag) Type() string { return "addresses" }

// outputFlag adds -o.
func (n *nodeFlags) outputFlag(cmd *cobra.Command) {
	addOutput(cmd, &n.output)
}

// print writes v as JSON, or as a table.
func (n *nodeFlags) print(v any, table func(io.Writer)) error {
	return show(n.process.out, n.output, v, table)
}

// call runs do with a client of the nodes.
func (n *nodeFlags) call(ctx context.Context, do func(context.Context, *admin.Client) error) error {
	if err := checkOutput(n.output); err != nil {
		return err
	}
	network, err := n.connect()
	if err != nil {
		return err
	}
	defer network.Close() //nolint:errcheck // nothing is left to lose
	c := &admin.Client{Addrs: n.addrs, Open: func(ctx context.Context, addr string) (core.Stream, error) {
		return network.Open(ctx, "", addr, admin.Service)
	}}
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	if err = do(ctx, c); errors.As(err, new(admin.NoAnswer)) {
		return fmt.Errorf("no answer from %s: %w", n.addrs, err)
	}
	return err
}

// connect is the command line's end of conversations with nodes, whose addresses are in
// n.addrs then.
func (n *nodeFlags) connect() (*peer.Network, error) {
	if err := n.defaults(); err != nil {
		return nil, usageError{err}
	}
	o := peer.Options{NodeID: "polylog-cli"}
	if n.tls != (certs.Files{}) {
		if n.tls.Cert == "" || n.tls.Key == "" || n.tls.CA == "" {
			return nil, usageError{errors.New("node-tls-cert, node-tls-key and node-tls-ca: set all three or none")}
		}
		var err error
		if o.TLS, err = peer.LoadTLS(n.tls, slog.New(slog.DiscardHandler)); err != nil {
			return nil, fmt.Errorf("node-tls-cert, node-tls-key, node-tls-ca: %w", err)
		}
	}
	return peer.New(o), nil
}

// defaults takes the address from the environment where no flag gives it.
func (n *nodeFlags) defaults() error {
	if len(n.addrs) > 0 {
		return nil
	}
	if err := n.addrs.UnmarshalText([]byte(cmp.Or(n.process.env(config.NodeEnv), defaultNode))); err != nil {
		return fmt.Errorf("%s: %w", config.NodeEnv, err)
	}
	return nil
}

// clusterAdd is for those who look for it.
func clusterAdd() *cobra.Command {
	return &cobra.Command{
		Use: "add", Short: "Say how a node is added: it adds itself", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("a node adds itself: start it with polylog serve --node-id ID --node-listen ADDR --join ADDR")}
		},
	}
}

func clusterInfo(n *nodeFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "info", Short: "Show who takes part", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return n.call(cmd.Context(), func(ctx context.Context, c *admin.Client) error {
				i, err := c.Info(ctx)
				if err != nil {
					return err
				}
				return n.print(i, func(w io.Writer) { infoTable(w, &i) })
			})
		},
	}
	n.outputFlag(cmd)
	return cmd
}

func infoTable(w io.Writer, i *admin.Info) {
	_, _ = fmt.Fprintf(w, "cluster %s\tleader %s\tterm %d\tfeature level %d\n\n", i.ClusterID, cmp.Or(i.Leader, "none"), i.Term, i.Level)
	_, _ = fmt.Fprintln(w, "NODE\tROLE\tADDRESS\tVERSION\tCLIENTS")
	for _, m := range i.Members {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.ID, role(&m), m.Addr, cmp.Or(m.Version, "-"), endpoints(m.Endpoints))
	}
}

func role(m *admin.Member) string {
	switch {
	case m.Leader:
		return "leader"
	case m.Voter:
		return "voter"
	default:
		return "catching up"
	}
}

func endpoints(all map[string]string) string {
	var b []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b = append(b, name+"="+all[name])
	}
	return cmp.Or(strings.Join(b, " "), "-")
}

// errUnhealthy has `cluster health` end with the exit code of a failure.
var errUnhealthy = errors.New("the cluster has problems")

func clusterHealth(n *nodeFlags) *cobra.Command {
	compare := false
	cmd := &cobra.Command{
		Use: "health", Short: "Ask every node how it is; fails when there is a problem", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return n.call(cmd.Context(), func(ctx context.Context, c *admin.Client) error {
				h, err := c.Health(ctx, compare)
				if err != nil {
					return err
				}
				if err := n.print(h, func(w io.Writer) { healthTable(w, &h) }); err != nil {
					return err
				}
				if !h.Healthy {
					return errUnhealthy
				}
				return nil
			})
		},
	}
	n.outputFlag(cmd)
	cmd.Flags().BoolVar(&compare, "compare", false, "compare the nodes' states too: each hashes all that it holds, within --timeout")
	return cmd
}

func healthTable(w io.Writer, h *admin.Health) {
	_, _ = fmt.Fprintln(w, "NODE\tROLE\tSTATE\tBEHIND\tLOG\tFREE\tVERSION")
	for i, node := range h.Nodes {
		m := h.Members[i]
		st := node.Status
		if st == nil {
			_, _ = fmt.Fprintf(w, "%s\t%s\tunreachable\t-\t-\t-\t%s\n", node.ID, role(&m), cmp.Or(m.Version, "-"))
			continue
		}
		state := "ready"
		if len(st.NotReady) > 0 {
			state = "not ready"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", node.ID, role(&m), state, node.Behind, bytesText(st.LogBytes), bytesText(st.DiskFree), st.Version)
	}
	if c := h.Compared; c != nil {
		_, _ = fmt.Fprintf(w, "\nNODE\tSTATE AFTER ENTRY %d, SHA-256\n", c.Index)
		for _, d := range c.Digests {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", d.ID, cmp.Or(d.SHA256, "-"))
		}
	}
	if h.Healthy {
		_, _ = fmt.Fprintln(w, "\nhealthy")
		return
	}
	_, _ = fmt.Fprintln(w)
	for _, p := range h.Problems {
		_, _ = fmt.Fprintln(w, p)
	}
}

// bytesText is a number of bytes in words; negative is not known.
func bytesText(n int64) string {
	const unit = 1024
	switch {
	case n < 0:
		return "-"
	case n < unit:
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for ; f >= unit && i < 3; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[i])
}

func clusterRemove(n *nodeFlags) *cobra.Command {
	return &cobra.Command{
		Use: "remove ID", Short: "Take a node out of the cluster for good, running or dead", Args: cobra.ExactArgs(1),
		Long: "remove takes a node out of the cluster and ends it if it runs. With its data directory it never comes\n" +
			"back. It is refused where fewer than a majority of the other voters run.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return n.call(cmd.Context(), func(ctx context.Context, c *admin.Client) error {
				if err := c.Remove(ctx, args[0]); err != nil {
					return err
				}
				_, err := fmt.Fprintf(n.process.out, "node %s removed\n", args[0])
				return err
			})
		},
	}
}

func clusterDrain(n *nodeFlags) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "drain ID", Short: "Have a node hand over what it leads and stop", Args: cobra.ExactArgs(1),
		Long: "drain stops a node as SIGTERM does: it finishes what its clients asked for, hands leadership over and\n" +
			"ends. It stays a member and may be started again. It is refused where the cluster could not go on\n" +
			"without it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return n.call(cmd.Context(), func(ctx context.Context, c *admin.Client) error {
				if err := c.Drain(ctx, args[0], force); err != nil {
					return err
				}
				_, err := fmt.Fprintf(n.process.out, "node %s stops\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "stop it even where the cluster cannot go on without it")
	return cmd
}
