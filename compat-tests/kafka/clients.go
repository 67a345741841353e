package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"polylog/compat/kafka/clients/proto"
)

// client is one row of the table: a library behind a driver program, or a command line tool that
// has its own version of each scenario.
type client struct {
	name    string
	command []string // of the driver
	tool    func(o options, addr string) (tool, error)
}

// tool is a command line client; what it has no means for returns errUnsupported.
type tool interface {
	version(ctx context.Context) (string, error)
	run(ctx context.Context, scenario, id string, r *reference) error
}

func clients(cache string) []client {
	bin := func(name string) []string { return []string{filepath.Join(cache, "bin", name)} }
	python := func(name string) []string {
		return []string{filepath.Join(cache, "venv", "bin", "python"), filepath.Join("clients", "python", name)}
	}
	return []client{
		{name: "java-4", command: java(cache, "4.3.1")},
		{name: "java-3", command: java(cache, "3.9.2")},
		{name: "kafka-tools", tool: newKafkaTools},
		{name: "confluent-kafka", command: python("confluent.py")},
		{name: "kcat", tool: newKcat},
		{name: "franz-go", command: bin("franz")},
		{name: "sarama", command: bin("sarama")},
		{name: "kafka-go", command: bin("kafkago")},
		{name: "kafkajs", command: []string{"node", filepath.Join("clients", "node", "driver.js")}},
		{name: "aiokafka", command: python("aio.py")},
		{name: "kafka-python", command: python("kafka_python.py")},
	}
}

// java starts quickly rather than runs fast: the tests wait for it and do little.
func java(cache, version string) []string {
	dir := filepath.Join(cache, "java-"+version)
	return append(append([]string{"java"}, quickJVM...), "-cp", filepath.Join(dir, "classes")+":"+filepath.Join(dir, "*"), "Driver")
}

var quickJVM = []string{
	"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m",
	"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
}

// patience is how long a scenario may take before it counts as one that hangs. It is far more
// than any takes, so that a slow machine fails none.
const patience = 3 * time.Minute

// runClient puts one client through every scenario; what it and its library print goes to a file.
func runClient(ctx context.Context, o options, c client, addr string, r *reference) row {
	out := row{name: c.name, cells: map[string]cell{}}
	log, err := os.Create(filepath.Join(o.work, c.name+".log"))
	if err != nil {
		out.broken = err
		return out
	}
	defer log.Close()

	var d *driver
	var t tool
	if c.tool != nil {
		if t, out.broken = c.tool(o, addr); out.broken == nil {
			out.version, out.broken = t.version(ctx)
		}
	} else if d, err = startDriver(addr, log, c.command...); err == nil {
		defer d.stop()
		var got proto.Args
		hello, cancel := context.WithTimeout(ctx, patience)
		got, out.broken = d.call(hello, "hello", nil)
		cancel()
		out.version = got["version"]
	} else {
		out.broken = err
	}
	if out.broken != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.name, out.broken)
		return out
	}
	for _, s := range scenarios {
		if o.scenario != "" && !named(o.scenario, s.name) {
			continue
		}
		begin := time.Now()
		limit, cancel := context.WithTimeout(ctx, patience)
		if t != nil {
			err = t.run(limit, s.name, c.name, r)
		} else {
			err = s.run(limit, d, r, c.name)
		}
		cancel()
		out.cells[s.name] = cell{ran: true, unsupported: errors.Is(err, errUnsupported), err: err}
		if o.verbose || (err != nil && !errors.Is(err, errUnsupported)) {
			fmt.Fprintf(os.Stderr, "%-16s %-15s %6.2fs %s\n", c.name, s.name, time.Since(begin).Seconds(), oneLine(err))
		}
	}
	return out
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
