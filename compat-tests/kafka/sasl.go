package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"polylog/compat/harness"
)

// The logins: a broker with users, and clients of each family that log in by each mechanism with the
// right password, and with a wrong one, which they have to be told of.

var saslMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

const (
	saslUser     = "admin"
	saslPassword = "correct horse"
	saslTopic    = "sasl"
)

// saslClient logs in and produces a record, or lists topics. Its error has what the broker has said.
type saslClient struct {
	name string
	try  func(ctx context.Context, mechanism, user, password string) error
}

// runSASL tries all clients.
func runSASL(ctx context.Context, o options) (failed int, err error) {
	secret := filepath.Join(o.work, "password")
	if err := os.WriteFile(secret, []byte(saslPassword+"\n"), 0o600); err != nil {
		return 0, err
	}
	b, err := harness.Polylog{Bin: o.bin, Dir: filepath.Join(o.work, "broker"), Args: []string{
		"--first-user", saslUser, "--first-user-password-file", secret,
	}}.Start(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.Stop(30*time.Second)) }()
	made, err := newKafkaTools(o, b.Addr)
	if err != nil {
		return 0, err
	}
	tools := made.(kafkaTools)
	clients := []saslClient{
		{"franz-go", func(ctx context.Context, mechanism, user, password string) error {
			return saslFranz(ctx, b.Addr, mechanism, user, password)
		}},
		{"confluent-kafka", func(ctx context.Context, mechanism, user, password string) error {
			cmd := exec.CommandContext(ctx, filepath.Join(o.cache, "venv", "bin", "python"), filepath.Join("clients", "python", "sasl.py"),
				b.Addr, mechanism, user, password, saslTopic)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, lastLines(string(out)))
			}
			return nil
		}},
		{"kafka-tools", tools.saslTopics},
	}
	check := func(client, what string, err error) {
		if err != nil {
			failed++
			fmt.Printf("%-16s %-32s FAILED: %v\n", client, what, err)
			return
		}
		fmt.Printf("%-16s %-32s ok\n", client, what)
	}
	for _, c := range clients {
		if o.only != "" && !named(o.only, c.name) {
			continue
		}
		for _, m := range saslMechanisms {
			check(c.name, m, bounded(ctx, func(ctx context.Context) error { return c.try(ctx, m, saslUser, saslPassword) }))
			check(c.name, m+", wrong password", bounded(ctx, func(ctx context.Context) error {
				err := c.try(ctx, m, saslUser, "wrong")
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), "authentication") {
					return fmt.Errorf("it says %w, want that the authentication failed", err)
				}
				return nil
			}))
		}
		check(c.name, "no credentials of this user", bounded(ctx, func(ctx context.Context) error {
			if err := c.try(ctx, "SCRAM-SHA-512", "nobody", saslPassword); err == nil {
				return errors.New("somebody who is not there has logged in")
			}
			return nil
		}))
	}
	if o.only == "" || named(o.only, "kafka-tools") {
		check("kafka-tools", "kafka-configs SCRAM-SHA-512", bounded(ctx, tools.saslConfigs))
	}
	return failed, nil
}

func bounded(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return do(ctx)
}

func saslFranz(ctx context.Context, addr, mechanism, user, password string) error {
	as := scram.Auth{User: user, Pass: password}
	by := map[string]kgo.Opt{
		"PLAIN":         kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()),
		"SCRAM-SHA-256": kgo.SASL(as.AsSha256Mechanism()),
		"SCRAM-SHA-512": kgo.SASL(as.AsSha512Mechanism()),
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), by[mechanism], kgo.DefaultProduceTopic(saslTopic), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); errors.Is(err, kerr.SaslAuthenticationFailed) {
		return fmt.Errorf("authentication: %w", err)
	} else if err != nil {
		return err
	}
	return cl.ProduceSync(ctx, kgo.StringRecord(mechanism)).FirstErr()
}

// saslFile is a property file of Kafka's own clients.
func (k kafkaTools) saslFile(mechanism, user, password string) (string, error) {
	module := "org.apache.kafka.common.security.scram.ScramLoginModule"
	if mechanism == "PLAIN" {
		module = "org.apache.kafka.common.security.plain.PlainLoginModule"
	}
	file := filepath.Join(k.work, "client.properties")
	return file, os.WriteFile(file, fmt.Appendf(nil, "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=%s\nsasl.jaas.config=%s required username=%q password=%q;\n",
		mechanism, module, user, password), 0o600)
}

// saslTopics lists topics as a user.
func (k kafkaTools) saslTopics(ctx context.Context, mechanism, user, password string) error {
	file, err := k.saslFile(mechanism, user, password)
	if err != nil {
		return err
	}
	_, err = k.server(ctx, "kafka-topics", "--command-config", file, "--list")
	return err
}

// saslConfigs makes a user by its salted password, describes it and takes the password away.
func (k kafkaTools) saslConfigs(ctx context.Context) error {
	configs := func(args ...string) (string, error) {
		file, err := k.saslFile("SCRAM-SHA-256", saslUser, saslPassword)
		if err != nil {
			return "", err
		}
		return k.server(ctx, "kafka-configs", append([]string{"--command-config", file, "--entity-type", "users", "--entity-name", "scott"}, args...)...)
	}
	if _, err := configs("--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=tiger]"); err != nil {
		return err
	}
	out, err := configs("--describe")
	if err != nil {
		return err
	}
	if err := want(out, `SCRAM-SHA-512=iterations=8192`); err != nil {
		return err
	}
	if err := k.saslTopics(ctx, "SCRAM-SHA-512", "scott", "tiger"); err != nil {
		return err
	}
	if _, err := configs("--alter", "--delete-config", "SCRAM-SHA-512"); err != nil {
		return err
	}
	if err := k.saslTopics(ctx, "SCRAM-SHA-512", "scott", "tiger"); err == nil {
		return errors.New("scott logs in without a password")
	}
	return nil
}
