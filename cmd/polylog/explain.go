package main

import (
	"fmt"
	"strings"
	"syscall"
)

// explain adds what to do to errors of the operating system that a broker meets in its
// data directory, or when it binds its listeners.
func explain(dir string, err error) error {
	if err == nil {
		return nil
	}
	var advice string
	switch {
	case says(err, syscall.ENOSPC, syscall.EDQUOT):
		advice = "the disk that holds " + dir + " is full; make room and start again, nothing acknowledged is lost"
	case says(err, syscall.EROFS, syscall.EACCES, syscall.EPERM):
		advice = "the broker must be able to write in " + dir
	case says(err, syscall.ENOTDIR):
		advice = "data-dir must be a directory"
	case says(err, syscall.EADDRINUSE):
		advice = "another process listens there; choose another address or port 0"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// says reports whether err is about one of errnos. It looks at the text, for Pebble
// passes some of its errors on as text.
func says(err error, errnos ...syscall.Errno) bool {
	for _, e := range errnos {
		if strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}
