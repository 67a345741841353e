package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"polylog/cmd/polylog/config"
	"polylog/core"
	"polylog/router"
)

// firstUser makes the administrator that the settings name, where the cluster has no users. Until it
// is there nobody may do anything.
func (b *broker) firstUser(ctx context.Context) error {
	if b.config.FirstUserPasswordFile == "" || len(b.router.Users()) > 0 {
		return nil
	}
	password, err := firstPassword(b.config.FirstUserPasswordFile)
	if err != nil {
		return err
	}
	change := router.UserChange{
		Tags: &[]string{router.TagAdministrator}, Password: &password, Rights: []router.Grant{router.Everything(core.DefaultNamespace)},
	}
	err = b.persist(ctx, func() error {
		_, err := b.router.SetUser(ctx, router.Itself("first user"), b.config.FirstUser, change)
		return err
	})
	if err != nil && core.KindOf(err) != core.Conflict { // another node was faster, or what was uncertain was done
		return fmt.Errorf("first-user: %w", err)
	}
	return nil
}

// firstPassword is the first line of first-user-password-file.
func firstPassword(file string) (string, error) {
	password, err := firstLineOf(file)
	if err != nil {
		return "", fmt.Errorf("first-user-password-file: %w", err)
	}
	return password, nil
}

// checkFirstUser refuses a password that cannot be had before a node begins its data directory. Later it
// may not matter any more.
func checkFirstUser(c *config.Config) error {
	if c.FirstUserPasswordFile == "" {
		return nil
	}
	if there, err := os.ReadDir(c.DataDir); err == nil && len(there) > 0 {
		return nil
	}
	_, err := firstPassword(c.FirstUserPasswordFile)
	return err
}

// persist has do try again while there is no leader, or the feature level has not risen yet.
func (b *broker) persist(ctx context.Context, do func() error) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		err := do()
		if k := core.KindOf(err); k != core.Unavailable && k != core.NotLeader && k != core.Uncertain && k != core.Unsupported {
			return err
		}
		pause.Reset(catchUpPause)
		select {
		case <-ctx.Done():
			return err
		case <-pause.C:
		}
	}
}

// warnOpen says which listeners other machines can use without being asked who they are.
func (b *broker) warnOpen() {
	if b.router.HasUsers() {
		return
	}
	for _, e := range b.exposed {
		b.log.Warn("other machines can reach this listener, and it asks nobody who they are: there are no users (polylog user add)", "listener", e.name, "addr", e.addr)
	}
}
