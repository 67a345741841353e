package main

import (
	"context"
	"fmt"
	"time"

	"polylog/core"
	"polylog/router"
)

// firstUser makes the administrator that the settings name, where the cluster has no users. Until it
// is there nobody may do anything.
func (b *broker) firstUser(ctx context.Context) error {
	if b.config.FirstUserPasswordFile == "" || len(b.router.Users()) > 0 {
		return nil
	}
	password, err := readToken(b.config.FirstUserPasswordFile)
	if err != nil {
		return fmt.Errorf("first-user-password-file: %w", err)
	}
	name, tags := b.config.FirstUser, []string{router.TagAdministrator}
	us := router.Itself("first user")
	made := false
	err = b.persist(ctx, func() error {
		_, err := b.router.SetUser(ctx, us, name, router.UserChange{Tags: &tags, Password: &password})
		made = err == nil
		return err
	})
	if core.KindOf(err) == core.Conflict { // another node was faster
		return nil
	}
	if err == nil {
		err = b.persist(ctx, func() error {
			_, err := b.router.SetRights(ctx, us, name, core.DefaultNamespace, ".*", ".*", ".*")
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("first-user: %w", err)
	}
	if made {
		b.log.Info("the first user is made", "user", name)
	}
	return nil
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
