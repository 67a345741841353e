// Package accept takes connections off listeners.
package accept

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// The pause after an error is doubled up to the last one.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Loop hands each connection to serve until stop is closed or the listener is. An error of the
// listener, of which a lack of file descriptors is the likeliest, is logged and tried again.
func Loop(l net.Listener, stop <-chan struct{}, log *slog.Logger, serve func(net.Conn)) {
	pause := firstPause
	for {
		c, err := l.Accept()
		select {
		case <-stop:
			if err == nil {
				_ = c.Close()
			}
			return
		default:
		}
		switch {
		case err == nil:
			pause = firstPause
			serve(c)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		log.Error("listener cannot accept", "addr", l.Addr().String(), "err", err, "retry", pause)
		select {
		case <-time.After(pause):
		case <-stop:
			return
		}
		pause = min(2*pause, lastPause)
	}
}
