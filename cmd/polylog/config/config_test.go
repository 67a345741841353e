package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func load(t *testing.T, yaml string, environ, args []string) (*Config, error) {
	t.Helper()
	if yaml != "" {
		path := filepath.Join(t.TempDir(), "polylog.yaml")
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config="+path)
	}
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(fs, environ)
}

func TestFlagsWinOverEnvironmentOverFileOverDefaults(t *testing.T) {
	yaml := "flush: os\nsegment-size: 16MiB\nlog-cache: 2MiB # small\nlog-level: warn\n"
	env := []string{"POLYLOG_FLUSH=interval", "POLYLOG_SEGMENT_SIZE=32MiB", "HOME=/root", "POLYLOG_BROKER=x:1"}
	c, err := load(t, yaml, env, []string{"--flush=sync"})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Flush, want.SegmentSize, want.LogCache, want.LogLevel = "sync", 32<<20, 2<<20, 4
	if d := cmp.Diff(want, c); d != "" {
		t.Fatal(d)
	}
}

func TestEveryMistakeIsNamedWithItsPlace(t *testing.T) {
	cases := []struct {
		name, yaml string
		env, args  []string
		want       string
	}{
		{name: "unknown key", yaml: "\nflush: os\nkafka-listn: off\n", want: "line 3: no setting is called kafka-listn (did you mean kafka-listen?)"},
		{name: "nested", yaml: "flush:\n  mode: os\n", want: "line 1: flush: want a single value"},
		{name: "a list", yaml: "- flush\n", want: "line 1: want lines of the form key: value"},
		{name: "twice", yaml: "flush: os\nflush: sync\n", want: `line 2: mapping key "flush" already defined`},
		{name: "syntax", yaml: "flush: [os\n", want: "line 1: "},
		{name: "value in file", yaml: "flush: never\n", want: `line 1: flush: "never" is none of sync, interval, os`},
		{name: "size", yaml: "segment-size: 5 furlongs\n", want: "line 1: segment-size: \"5 furlongs\" is not a size"},
		{name: "too small", yaml: "segment-size: 1KiB\n", want: "is less than 1MiB"},
		{name: "too large", yaml: "segment-size: 3GiB\n", want: "is more than 2GiB"},
		{name: "unknown variable", env: []string{"POLYLOG_FLSH=os"}, want: "no setting is called POLYLOG_FLSH (did you mean POLYLOG_FLUSH?)"},
		{name: "variable", env: []string{"POLYLOG_FLUSH_INTERVAL=5"}, want: `POLYLOG_FLUSH_INTERVAL: "5" is not a duration`},
		{name: "flag", args: []string{"--http-listen=8080"}, want: `--http-listen: "8080" is not host:port`},
		{name: "port", args: []string{"--http-listen=:99999"}, want: `":99999" has a port that is not from 0 to 65535`},
		{name: "advertise", args: []string{"--kafka-advertise=:9092"}, want: "must name a host and a port"},
		{name: "node id", args: []string{"--node-id=-1"}, want: "--node-id: \"-1\" is not a name"},
		{name: "node id with spaces", args: []string{"--node-id=a b"}, want: "is not a name"},
		{name: "node id that is no broker id", args: []string{"--node-id=007"}, want: "is a number, but not a whole one from 0 to 2147483647"},
		{name: "join without a port", args: []string{"--join=host"}, want: "--join: \"host\" is not host:port"},
		{name: "join with port 0", args: []string{"--join=host:0"}, want: "must name a host and a port"},
		{name: "join everywhere", args: []string{"--join=0.0.0.0:7420"}, want: "nobody can connect to \"0.0.0.0:7420\""},
		{name: "join twice", args: []string{"--join=a:1, a:1"}, want: "\"a:1\" is named twice"},
		{name: "join without listener", args: []string{"--join=a:1", "--node-id=n2"}, want: "node-listen: it is off"},
		{name: "join without id", args: []string{"--join=a:1", "--node-listen=127.0.0.1:7420"}, want: "node-id: a node that joins"},
		{name: "join itself", args: []string{"--join=127.0.0.1:7420", "--node-id=n2", "--node-listen=127.0.0.1:7420"}, want: "join: 127.0.0.1:7420 is this node's own address"},
		{name: "join without others", args: []string{"--join=a:1", "--node-id=n2", "--node-listen=:1", "--node-advertise=a:1"}, want: "join: a:1 is this node's own address"},
		{name: "advertise everything", args: []string{"--node-listen=:7420", "--node-advertise=[::]:7420"}, want: "--node-advertise: nobody can connect"},
		{name: "a certificate without a key", args: []string{"--node-tls-cert=cert.pem"}, want: "set all three or none"},
		{name: "listen everywhere", args: []string{"--node-listen=0.0.0.0:7420"}, want: "node-advertise: must be set"},
		{name: "a pair without a value", args: []string{"--broker-config=num.partitions"}, want: "is not name=value"},
		{name: "pairs as a value", yaml: "broker-config: 5\n", want: "line 1: broker-config: want names and values below it"},
		{name: "unknown pair", yaml: "broker-config:\n  num.partition: 6\n", want: "line 2: broker-config: num.partition: unknown broker configuration num.partition (did you mean num.partitions?)"},
		{name: "pair that has a setting", args: []string{"--broker-config=listeners=PLAINTEXT://:1"}, want: "--broker-config: broker configuration listeners cannot be set: use kafka-listen"},
		{name: "fixed pair", args: []string{"--broker-config=socket.request.max.bytes=1000"}, want: "is fixed at 104857600"},
		{name: "pair with a bad value", args: []string{"--broker-config=message.max.bytes=10MiB"}, want: "not a number of type int"},
		{name: "pair too large", args: []string{"--broker-config=num.partitions=100000000"}, want: "between 1 and"},
		{name: "pairs with commas", env: []string{"POLYLOG_BROKER_CONFIG=num.partitions=3,auto.create.topics.enable=false"}, want: "POLYLOG_BROKER_CONFIG: "},
		{name: "one address twice", args: []string{"--http-listen=:9000", "--kafka-listen=:9000"}, want: "both are :9000"},
		{name: "pairs too deep", yaml: "broker-config:\n  max.connections: 1\n  num: {partitions: 6}\n", want: "line 3: broker-config: num: want a single value"},
		{name: "level", args: []string{"--log-level=loud"}, want: `--log-level: "loud" is none of debug, info, warn, error`},
		{name: "caches above the limit", args: []string{"--memory-limit=20MiB"}, want: "less than log-cache and index-cache"},
		{name: "no such file", args: []string{"--config=/nonexistent/p.yaml"}, want: "/nonexistent/p.yaml"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.yaml, c.env, c.args)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want one line with %q", err, c.want)
			}
		})
	}
}

func TestVariablesFromKubernetesAreNotOurs(t *testing.T) {
	env := []string{
		"POLYLOG_SERVICE_HOST=10.0.0.1", "POLYLOG_SERVICE_PORT_KAFKA=9092", "POLYLOG_PORT=tcp://10.0.0.1:9092",
		"POLYLOG_PORT_9092_TCP_ADDR=10.0.0.1", "POLYLOG_HEADLESS_SERVICE_HOST=10.0.0.2",
	}
	if _, err := load(t, "", env, nil); err != nil {
		t.Fatal(err)
	}
}

func TestEmptyFile(t *testing.T) {
	for _, yaml := range []string{"# nothing\n", "---\n", "\n"} {
		c, err := load(t, yaml, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(Default(), c); d != "" {
			t.Fatal(d)
		}
	}
}

func TestPairsAddUp(t *testing.T) {
	yaml := "broker-config:\n  num.partitions: 6\n  log.cleanup.policy: compact,delete\n  log.retention.ms: 1\n"
	env := []string{"POLYLOG_BROKER_CONFIG=log.retention.ms=2; message.max.bytes = 3"}
	c, err := load(t, yaml, env, []string{"--broker-config=num.partitions=7", "--broker-config=compression.type= zstd "})
	if err != nil {
		t.Fatal(err)
	}
	want := Pairs{"num.partitions": "7", "log.cleanup.policy": "compact,delete", "log.retention.ms": "2", "message.max.bytes": "3", "compression.type": "zstd"}
	if d := cmp.Diff(want, c.BrokerConfig); d != "" {
		t.Fatal(d)
	}
}

func TestEffectiveConfigurationReadsBack(t *testing.T) {
	want, err := load(t, "", []string{"POLYLOG_DATA_DIR=/srv/a: b #c", "POLYLOG_SHUTDOWN_TIMEOUT=5m"}, []string{"--memory-limit=1000000000", "--broker-config=num.partitions=3;log.cleanup.policy=compact,delete"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := want.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, b.String(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" || got.ShutdownTimeout != 5*time.Minute {
		t.Fatal(d)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "512": 512, "7B": 7, "64KiB": 64 << 10, "1 GiB": 1 << 30, "3TiB": 3 << 40} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5GiB", "MiB", "9000000TiB", "99999999999999999999", "1MB"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken for %d", text, s)
		}
	}
}
