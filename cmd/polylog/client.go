package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"polylog/cmd/polylog/config"
	"polylog/cmd/polylog/rest"
)

const (
	defaultBroker = "127.0.0.1:9092"
	// dialTimeout bounds how long a verb waits for a broker that does not answer.
	dialTimeout = 5 * time.Second
)

// brokerFlags are the flags of the verbs that are clients of a running broker.
type brokerFlags struct {
	process *process
	as      *credentials // nil: nobody
	addr    string
	timeout time.Duration
	servers rest.Servers // of the HTTP interface, for verbs that speak that, too
}

func (b *brokerFlags) add(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVarP(&b.addr, "broker", "b", "", "broker's Kafka address, or several with commas (environment: "+config.ClientEnv+"; default "+defaultBroker+")")
	b.as = &credentials{process: b.process}
	b.as.add(cmd)
	cmd.PersistentFlags().DurationVar(&b.timeout, "timeout", 30*time.Second, "how long to wait for the broker")
}

// addServer is for verbs that speak to the HTTP interface where --server names it.
func (b *brokerFlags) addServer(cmd *cobra.Command) {
	cmd.Flags().VarP(&b.servers, "server", "s", "address of the broker's HTTP interface, or several with commas, to speak HTTP instead of Kafka's protocol")
	cmd.MarkFlagsMutuallyExclusive("broker", "server")
}

// http are the flags for the HTTP interface.
func (b *brokerFlags) http() *apiFlags {
	return &apiFlags{process: b.process, as: b.as, servers: b.servers, timeout: b.timeout}
}

// seeds are the addresses to begin with.
func (b *brokerFlags) seeds() []string {
	return strings.Split(cmp.Or(b.addr, b.process.env(config.ClientEnv), defaultBroker), ",")
}

// client connects to the broker, and says at once when nothing answers there: the
// library would go on trying.
func (b *brokerFlags) client(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(b.seeds()...),
		kgo.ClientID("polylog-cli"),
		kgo.DialTimeout(dialTimeout),
		kgo.RetryTimeout(b.timeout),
		kgo.RecordDeliveryTimeout(b.timeout),
	}, opts...)
	login, err := b.login()
	if err != nil {
		return nil, err
	}
	opts = append(opts, login...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, usageError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, min(b.timeout, dialTimeout))
	defer cancel()
	if err := c.Ping(ctx); err != nil {
		c.Close()
		if err := notLoggedIn(err, len(login) > 0); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("no broker answers at %s: %w", strings.Join(b.seeds(), ","), plain(err))
	}
	return c, nil
}

// loggedIn is client for a verb that goes on for a while. The context that it returns ends when the
// broker does not let the user in any more: the library would try again for ever, as somebody does who
// guesses passwords. loggedOut tells that from other ends.
func (b *brokerFlags) loggedIn(ctx context.Context, opts ...kgo.Opt) (context.Context, *kgo.Client, error) {
	login, err := b.login()
	if err != nil {
		return nil, nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	c, err := b.client(ctx, append(opts, kgo.WithHooks(&loginWatch{end: end, tried: len(login) > 0}))...)
	if err != nil {
		end(err)
		return nil, nil, err
	}
	return ctx, c, nil
}

// loginWatch ends something when brokers do not let its user in any more.
type loginWatch struct {
	end   context.CancelCauseFunc
	tried bool // it shows a user

	mu      sync.Mutex // guards what follows
	refused int        // how often since it was served
	opened  bool       // a connection since it was served, or refused
}

// maxRefused is how often in a row a client is refused before that is the end: a node that is behind
// does not know a new user or password yet.
const maxRefused = 3

var (
	_ kgo.HookBrokerConnect = (*loginWatch)(nil)
	_ kgo.HookBrokerRead    = (*loginWatch)(nil)
)

// OnBrokerConnect hears of each try to connect, with the login.
func (w *loginWatch) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch why := loginRefused(err); {
	case err == nil && w.tried:
		w.refused = 0
	case err == nil:
		w.opened = true
	case why != nil:
		w.countLocked(why)
	}
}

// OnBrokerRead hears of each answer. Who shows no user is told that there are users now by the end of
// a connection that was just opened.
func (w *loginWatch) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if w.tried || key == int16(kmsg.ApiVersions) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch why := notLoggedIn(err, false); {
	case err == nil:
		w.refused, w.opened = 0, false
	case why != nil && w.opened:
		w.opened = false
		w.countLocked(logoutError{why})
	}
}

func (w *loginWatch) countLocked(why error) {
	if w.refused++; w.refused == maxRefused {
		w.end(why)
	}
}

// logoutError is that somebody whom brokers have served is not let in any more.
type logoutError struct{ error }

// loginRefused is the logoutError of a login that was refused; nil: that is not what it was.
func loginRefused(err error) error {
	if why := notLoggedIn(err, true); why != nil {
		return logoutError{fmt.Errorf("the broker refuses to log in again: %w", why)}
	}
	return nil
}

// loggedOut is the logoutError that has ended a context of loggedIn; nil: nothing has, or something else.
func loggedOut(ctx context.Context) error {
	if e, ok := errors.AsType[logoutError](context.Cause(ctx)); ok {
		return e
	}
	return nil
}

// login is how the client logs in; empty where it shows nothing. By SCRAM the password does not go
// over the wire.
func (b *brokerFlags) login() ([]kgo.Opt, error) {
	if b.as == nil {
		return nil, nil
	}
	user, password, err := b.as.get()
	if err != nil || user == "" {
		return nil, err
	}
	return []kgo.Opt{kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())}, nil
}

// notLoggedIn is what a broker means that takes the client's connection and does not serve it; nil where
// that is not what it does.
func notLoggedIn(err error, tried bool) error {
	var first *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return errors.New("the user or the password is wrong")
	case tried && errors.Is(err, kerr.IllegalSaslState):
		return errors.New("the broker has no users: leave out --user")
	case !tried && (errors.As(err, &first) || errors.Is(err, io.EOF)):
		return errors.New("the broker takes connections and ends them: if it has users, log in (see --user)")
	}
	return nil
}

// admin runs do with a client for administration.
func (b *brokerFlags) admin(ctx context.Context, do func(context.Context, *kadm.Client) error) error {
	c, err := b.client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if err = do(ctx, kadm.NewClient(c)); errors.Is(err, context.DeadlineExceeded) {
		// The library tries again while the brokers name no leader, and does not say so.
		return fmt.Errorf("not done within %v, though a broker answers: the cluster may have no leader, see polylog cluster health", b.timeout)
	}
	return err
}

// plain takes the library's layers off a network error.
func plain(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("timed out")
	}
	return err
}

// askPause is between two tries of untilReached.
const askPause = 250 * time.Millisecond

// untilReached has ask ask again, until the time-out, while a broker that the cluster names
// takes no connection: one that has just died is named for a moment. The library tries
// again by itself when it produces and fetches, not for every question.
func (b *brokerFlags) untilReached(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	tick := time.NewTicker(askPause)
	defer tick.Stop()
	for {
		err := ask()
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
