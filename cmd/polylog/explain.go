package main

import (
	"errors"
	"fmt"
	"syscall"

	"polylog/cmd/polylog/config"
)

// explain adds what to do to errors of the operating system that a broker meets in its
// data directory or when it binds its listeners.
func explain(c *config.Config, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: the disk that holds %s is full; make room and start again, nothing acknowledged is lost", err, c.DataDir)
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: the broker must be able to write in %s", err, c.DataDir)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another process listens there; choose another address or port 0", err)
	}
	return err
}
