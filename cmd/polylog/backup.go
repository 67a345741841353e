package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"polylog/cluster"
	"polylog/cluster/peer"
	"polylog/cmd/polylog/config"
	"polylog/core"
	"polylog/core/vfs"
	"polylog/index"
	"polylog/router/state"
)

func clusterBackup(n *nodeFlags) *cobra.Command {
	to := ""
	cmd := &cobra.Command{
		Use: "backup --to DIR", Short: "Copy a running node's data to a directory", Args: cobra.NoArgs,
		Long: "backup copies everything that was acknowledged before to a directory that does not exist yet. The node\n" +
			"at --node, from which it comes, goes on meanwhile; where no leader confirms that it has everything,\n" +
			"there is no backup. Every byte is checked. Called again after it was interrupted, it goes on\n" +
			"where it was.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usageError{errors.New("--to is missing: the directory for the backup")}
			}
			info, err := n.backup(cmd.Context(), to)
			if err != nil {
				return explain(to, err)
			}
			_, err = fmt.Fprintf(n.process.out, "backup of cluster %s in %s: entries up to %d, %d files, %s\n",
				info.ClusterID, to, info.Last, info.Files, bytesText(info.Bytes))
			return err
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "directory for the backup")
	return cmd
}

// backup takes the backup from the first of the nodes that answers and knows to be up to date.
func (n *nodeFlags) backup(ctx context.Context, to string) (info cluster.BackupInfo, err error) {
	network, err := n.connect()
	if err != nil {
		return info, err
	}
	defer network.Close() //nolint:errcheck // nothing is left to lose
	for _, addr := range n.addrs {
		info, err = backupFrom(ctx, network, addr, to)
		switch core.KindOf(err) {
		case core.NotLeader: // none has confirmed what the node has
		case core.Unavailable:
			err = fmt.Errorf("no answer from %s: %w", addr, err)
		default:
			return info, err
		}
	}
	return info, err
}

func backupFrom(ctx context.Context, network *peer.Network, addr, to string) (info cluster.BackupInfo, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := network.Open(ctx, "", addr, cluster.BackupService)
	if err != nil {
		return info, err
	}
	return cluster.Backup(vfs.Default, s, to)
}

func clusterRestore(p *process) *cobra.Command {
	o := cluster.RestoreOptions{FS: vfs.Default, First: forgetMembers}
	cmd := &cobra.Command{
		Use: "restore --from DIR", Short: "Make a data directory of a backup", Args: cobra.NoArgs,
		Long: "restore makes a data directory of what backup wrote: that of a new cluster with one node and the\n" +
			"backup's data, which others can join. Every byte is checked. No broker need run. What was written after\n" +
			"the backup is not in it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.From == "" {
				return usageError{errors.New("--from is missing: the directory with the backup")}
			}
			info, err := cluster.Restore(cmd.Context(), o)
			if err != nil {
				return explain(o.Dir, err)
			}
			_, err = fmt.Fprintf(p.out, "%s has the data of cluster %s up to entry %d: %d files, %s; start it with: polylog serve --data-dir %s\n",
				o.Dir, info.ClusterID, info.Last, info.Files, bytesText(info.Bytes), o.Dir)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.From, "from", "", "directory with the backup")
	f.StringVar(&o.Dir, "data-dir", config.Default().DataDir, "data directory to make; missing or empty")
	f.StringVar(&o.NodeID, "node-id", "", "id of the node; 1 where there is none")
	f.StringVar(&o.ClusterID, "cluster-id", "", "id of the cluster; a new one where there is none. The backup's own only when none of its nodes will ever run again")
	return cmd
}

// forgetMembers are the commands that take the members of a backup's cluster out of the
// registry: none of them is a member of the restored one.
func forgetMembers(indexDir string) (commands []core.Command, err error) {
	store, err := index.Open(index.Options{FS: vfs.Default, Dir: indexDir})
	if err != nil {
		return nil, fmt.Errorf("open the index of the backup: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	st, err := state.Open(store, state.Options{})
	if err != nil {
		return nil, err
	}
	for id := range st.Members() {
		c := state.ForgetMember{ID: id}
		commands = append(commands, c.Command())
	}
	slices.SortFunc(commands, func(a, b core.Command) int { return slices.Compare(a.Head, b.Head) })
	return commands, nil
}
