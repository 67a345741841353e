// Command login tries users with amqp091-go: login AMQP MANAGEMENT, the addresses of a broker as
// ../../login.sh makes it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// wants fails unless err is the broker's, with a code and a text.
func wants(code int, text string, err error) error {
	if a := (*amqp.Error)(nil); errors.As(err, &a) && a.Code == code && a.Reason == text {
		return nil
	}
	return fmt.Errorf("%w, want %d %s", err, code, text)
}

func run(addr, management string) error {
	dial := func(user, password, vhost string) (*amqp.Connection, error) {
		return amqp.DialConfig("amqp://"+addr, amqp.Config{Vhost: vhost, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}}})
	}
	// The library has an error of its own for a login that was refused, which the broker says before it closes.
	for _, wrong := range []string{"", "wrong"} {
		if _, err := dial("alice", wrong, "/"); !errors.Is(err, amqp.ErrCredentials) {
			return fmt.Errorf("password %q: %w, want %w", wrong, err, amqp.ErrCredentials)
		}
	}
	_, err := dial("alice", "alices", "other")
	if err := wants(amqp.NotAllowed, "NOT_ALLOWED - access to vhost 'other' refused for user 'alice'", err); err != nil {
		return err
	}
	amqplain := amqp.Config{Vhost: "/", SASL: []amqp.Authentication{&amqp.AMQPlainAuth{Username: "alice", Password: "alices"}}}
	conn, err := amqp.DialConfig("amqp://"+addr, amqplain)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := publishes(conn); err != nil {
		return err
	}
	for _, try := range []struct {
		text string
		do   func(*amqp.Channel) error
	}{
		{"write access to exchange 'amq.default'", func(ch *amqp.Channel) error { return closed(ch, "", "my-queue") }},
		{"write access to exchange 'nope'", func(ch *amqp.Channel) error { return closed(ch, "nope", "") }},
		{"configure access to queue 'b'", func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("b", true, false, false, false, nil)
			return err
		}},
		{"configure access to queue 'b'", func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive("b", true, false, false, false, nil)
			return err
		}},
		{"read access to queue 'b'", func(ch *amqp.Channel) error {
			_, _, err := ch.Get("b", true)
			return err
		}},
		{"configure access to exchange 'b'", func(ch *amqp.Channel) error { return ch.ExchangeDelete("b", false, false) }},
	} {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if err := wants(amqp.AccessRefused, "ACCESS_REFUSED - "+try.text+" in vhost '/' refused for user 'alice'", try.do(ch)); err != nil {
			return err
		}
	}
	return endsWithItsUser(conn, management)
}

// publishes has what the user may do.
func publishes(conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare("my-queue", true, false, false, false, nil); err != nil {
		return err
	}
	if err := ch.ExchangeDeclare("my-exchange", "fanout", true, false, false, false, nil); err != nil {
		return err
	}
	if err := ch.QueueBind("my-queue", "", "my-exchange", false, nil); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	confirm, err := ch.PublishWithDeferredConfirm("my-exchange", "", false, false, amqp.Publishing{UserId: "alice", Body: []byte("hello")})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if acked, err := confirm.WaitContext(ctx); !acked || err != nil {
		return fmt.Errorf("confirmed %t: %w", acked, err)
	}
	d, ok, err := ch.Get("my-queue", true)
	if err != nil || !ok || string(d.Body) != "hello" {
		return fmt.Errorf("%q, %t: %w", d.Body, ok, err)
	}
	return nil
}

// closed is why a channel is closed after a publish.
func closed(ch *amqp.Channel, exchange, key string) error {
	why := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Publish(exchange, key, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
		return err
	}
	return soon(why)
}

func soon(why <-chan *amqp.Error) error {
	select {
	case err := <-why:
		return err
	case <-time.After(30 * time.Second):
		return errors.New("nothing was closed within 30 s")
	}
}

func endsWithItsUser(conn *amqp.Connection, management string) error {
	why := conn.NotifyClose(make(chan *amqp.Error, 1))
	req, err := http.NewRequest(http.MethodDelete, "http://"+management+"/api/users/alice", nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth("admin", "admins")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("alice's deletion: %s", res.Status)
	}
	return wants(amqp.ConnectionForced, "CONNECTION_FORCED - user 'alice' is deleted", soon(why))
}
