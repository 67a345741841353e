package group

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Config bounds what groups may do. The zero value means Kafka's defaults.
type Config struct {
	// InitialDelay is how long the first rebalance of a group waits for more
	// members, group.initial.rebalance.delay.ms: 3 s when 0, none when negative.
	InitialDelay time.Duration
	// MinSession and MaxSession bound session time-outs: 6 s and 30 min when 0.
	MinSession, MaxSession time.Duration
	// NewMember is how long a member whose first JoinGroup is parked may stay
	// without a sign of life: 5 min when 0.
	NewMember time.Duration
	// KeepEmpty is how long a group whose last member left stays in memory: 10 min
	// when 0. Its generation and protocol type are forgotten afterwards.
	KeepEmpty time.Duration
	// ConsumerSession and ConsumerInterval are the session time-out and the heartbeat
	// interval of the new protocol, which the coordinator chooses: 45 s and 5 s when 0.
	ConsumerSession, ConsumerInterval time.Duration
	// MaxSize and ConsumerMaxSize are how many members a group of the classic and of the
	// new protocol may have, group.max.size and group.consumer.max.size: no limit but
	// MaxBytes when 0.
	MaxSize, ConsumerMaxSize int
	// MaxMemberBytes bounds one member's metadata, and its assignment: 1 MiB when 0.
	MaxMemberBytes int
	// MaxBytes bounds what all groups keep of their members: 64 MiB when 0.
	MaxBytes int64
	// NewID makes the unique part of a member id: a random UUID when nil.
	NewID func() string
	// Logger receives one line a rebalance: none when nil.
	Logger *slog.Logger
}

// EnsureDefaults fills what is zero.
func (c *Config) EnsureDefaults() {
	setDefault(&c.InitialDelay, 3*time.Second)
	setDefault(&c.MinSession, 6*time.Second)
	setDefault(&c.MaxSession, 30*time.Minute)
	setDefault(&c.NewMember, 5*time.Minute)
	setDefault(&c.KeepEmpty, 10*time.Minute)
	setDefault(&c.ConsumerSession, 45*time.Second)
	setDefault(&c.ConsumerInterval, 5*time.Second)
	setDefault(&c.MaxSize, math.MaxInt32)
	setDefault(&c.ConsumerMaxSize, math.MaxInt32)
	setDefault(&c.MaxMemberBytes, 1<<20)
	setDefault(&c.MaxBytes, 64<<20)
	c.InitialDelay = max(c.InitialDelay, 0)
	if c.NewID == nil {
		c.NewID = randomID
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])                      // never fails: it would end the program
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // RFC 9562: version 4, variant 10
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
