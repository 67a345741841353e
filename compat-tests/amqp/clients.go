package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"polylog/compat/amqp/clients/proto"
)

// client is one row of the table: a library behind a driver program.
type client struct {
	name    string
	command []string // of the driver
	// application programs run by themselves and tell what they have done, instead of being driven.
	application bool
}

func clients(cache string) []client {
	python := func(name string) []string {
		return []string{filepath.Join(cache, "venv", "bin", "python"), filepath.Join("clients", "python", name)}
	}
	return []client{
		{name: "amqp091-go", command: []string{filepath.Join(cache, "bin", "go")}},
		{name: "pika", command: python("pika_driver.py")},
		{name: "amqplib", command: []string{"node", filepath.Join("clients", "node", "driver.js")}},
		{name: "java", command: java(cache)},
		{name: "php-amqplib", command: []string{"php", filepath.Join("clients", "php", "driver.php")}},
		{name: "bunny", command: []string{"ruby", filepath.Join("clients", "ruby", "driver.rb")}},
		{name: "kombu", command: python("kombu_app.py"), application: true},
		{name: "celery", command: python("celery_app.py"), application: true},
	}
}

// java starts quickly rather than runs fast: the tests wait for it and do little.
func java(cache string) []string {
	dir := filepath.Join(cache, "java")
	return []string{
		"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m",
		"-cp", filepath.Join(dir, "classes") + ":" + filepath.Join(dir, "*"), "Driver",
	}
}

// patience is how long a scenario may take before it counts as one that hangs. It is far more
// than any takes, so that a slow machine fails none.
const patience = time.Minute

// atOnce is how many clients run side by side.
const atOnce = 3

// runClients puts every client that is asked for through the scenarios; rows keep the clients' order.
func runClients(ctx context.Context, o options, addr string) []row {
	var chosen []client
	for _, c := range clients(o.cache) {
		if o.only == "" || named(o.only, c.name) {
			chosen = append(chosen, c)
		}
	}
	rows := make([]row, len(chosen))
	places := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, c := range chosen {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			rows[i] = runClient(ctx, o, c, addr)
		})
	}
	all.Wait()
	return rows
}

// runClient puts one client through every scenario; what it and its library print goes to a file.
func runClient(ctx context.Context, o options, c client, addr string) row {
	out := row{name: c.name, application: c.application, cells: map[string]cell{}}
	log, err := os.Create(filepath.Join(o.work, c.name+".log"))
	if err != nil {
		out.broken = err
		return out
	}
	defer log.Close()
	if c.application {
		return runApplication(ctx, o, c, addr, log)
	}
	d, version, err := greet(ctx, c, addr, log)
	if err != nil {
		out.broken = err
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.name, err)
		return out
	}
	out.version = version
	defer func() {
		if d != nil {
			d.stop()
		}
	}()
	for _, s := range scenarios {
		if o.scenario != "" && !named(o.scenario, s.name) || s.notIn != "" && s.notIn == o.target {
			continue
		}
		begin := time.Now()
		limit, cancel := context.WithTimeout(ctx, patience)
		err = play(limit, d, c.name+"."+strings.ReplaceAll(s.name, " ", "-"), s.play)
		cancel()
		out.cells[s.name] = cell{ran: true, unsupported: errors.Is(err, errUnsupported), err: err}
		if o.verbose || (err != nil && !errors.Is(err, errUnsupported)) {
			fmt.Fprintf(os.Stderr, "%-12s %-15s %6.2fs %s\n", c.name, s.name, time.Since(begin).Seconds(), oneLine(err))
		}
		if err == nil || errors.Is(err, errUnsupported) {
			continue
		}
		// What failed may have ended the connection; that is no reason for the next one to fail.
		d.stop()
		if d, _, out.broken = greet(ctx, c, addr, log); out.broken != nil {
			break
		}
	}
	return out
}

// greet starts a client's driver, which opens its connection.
func greet(ctx context.Context, c client, addr string, log io.Writer) (d *driver, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if d, err = startDriver(addr, log, c.command...); err != nil {
		return nil, "", err
	}
	out, err := d.call(ctx, proto.Request{Op: "hello"})
	if err != nil {
		d.stop()
		return nil, "", err
	}
	return d, out.Version, nil
}

func oneLine(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errUnsupported):
		return "not in this client"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
