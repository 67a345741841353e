package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"polylog/compat/kafka/clients/proto"
)

// kafkaTools is Kafka's command line: the main classes behind its shell scripts, each run in a JVM
// of its own, as those scripts do.
type kafkaTools struct {
	addr, libs, log4j string
	out               io.Writer
	work              string
}

func newKafkaTools(o options, addr string) (tool, error) {
	f, err := os.Create(filepath.Join(o.work, "kafka-tools.out"))
	if err != nil {
		return nil, err
	}
	log4j := filepath.Join(o.work, "log4j2.xml")
	quiet := `<Configuration status="ERROR"><Appenders><Console name="C" target="SYSTEM_ERR"/></Appenders>` +
		`<Loggers><Root level="WARN"><AppenderRef ref="C"/></Root></Loggers></Configuration>`
	return kafkaTools{addr, filepath.Join(o.cache, "tools"), log4j, f, o.work}, os.WriteFile(log4j, []byte(quiet), 0o644)
}

// The scripts' names and what they run.
var mainClasses = map[string]string{
	"kafka-topics":               "org.apache.kafka.tools.TopicCommand",
	"kafka-configs":              "kafka.admin.ConfigCommand",
	"kafka-console-producer":     "org.apache.kafka.tools.ConsoleProducer",
	"kafka-console-consumer":     "org.apache.kafka.tools.consumer.ConsoleConsumer",
	"kafka-consumer-groups":      "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
	"kafka-get-offsets":          "org.apache.kafka.tools.GetOffsetShell",
	"kafka-delete-records":       "org.apache.kafka.tools.DeleteRecordsCommand",
	"kafka-log-dirs":             "org.apache.kafka.tools.LogDirsCommand",
	"kafka-verifiable-producer":  "org.apache.kafka.tools.VerifiableProducer",
	"kafka-verifiable-consumer":  "org.apache.kafka.tools.VerifiableConsumer",
	"kafka-broker-api-versions":  "org.apache.kafka.tools.BrokerApiVersionsCommand",
	"kafka-cluster":              "org.apache.kafka.tools.ClusterTool",
	"kafka-producer-perf-test":   "org.apache.kafka.tools.ProducerPerformance",
	"kafka-consumer-perf-test":   "org.apache.kafka.tools.ConsumerPerformance",
	"client-compatibility-check": "org.apache.kafka.tools.ClientCompatibilityTest",
}

func (k kafkaTools) version(ctx context.Context) (string, error) {
	if _, err := k.server(ctx, "kafka-topics", "--list"); err != nil { // makes the archive
		return "", err
	}
	out, err := k.tool(ctx, nil, "kafka-topics", "--version")
	return strings.Fields(out + " unknown")[0], err
}

func (k kafkaTools) tool(ctx context.Context, in io.Reader, name string, args ...string) (string, error) {
	java := append(slices.Clone(quickJVM), k.archive(), "-Dlog4j2.configurationFile="+k.log4j, "-cp", filepath.Join(k.libs, "*"), mainClasses[name])
	cmd := exec.CommandContext(ctx, "java", append(java, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	err := cmd.Run()
	fmt.Fprintf(k.out, "%s %v: %v\n%s%s", name, args, err, out.String(), errs.String())
	if err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s %s", name, err, lastLines(out.String()), lastLines(errs.String()))
	}
	return out.String(), nil
}

// archive lets the first tool that runs leave its classes, parsed, for those after it: three
// quarters of a tool's time is the start of its JVM.
func (k kafkaTools) archive() string {
	file := filepath.Join(k.work, "classes.jsa")
	if _, err := os.Stat(file); err != nil {
		return "-XX:ArchiveClassesAtExit=" + file
	}
	return "-XX:SharedArchiveFile=" + file
}

func lastLines(s string) string { return s[max(0, len(s)-400):] }

// server runs a tool that takes --bootstrap-server.
func (k kafkaTools) server(ctx context.Context, name string, args ...string) (string, error) {
	return k.tool(ctx, nil, name, append([]string{"--bootstrap-server", k.addr}, args...)...)
}

// want checks that a tool printed what it should have.
func want(out, pattern string) error {
	if !regexp.MustCompile(pattern).MatchString(out) {
		return fmt.Errorf("printed %q, want %q", lastLines(out), pattern)
	}
	return nil
}

func (k kafkaTools) run(ctx context.Context, scenario, id string, r *reference) error {
	topic := id + "-" + strings.ReplaceAll(scenario, " ", "-")
	switch scenario {
	case "none", "gzip", "snappy", "lz4", "zstd":
		return k.codec(ctx, r, topic, scenario)
	case "idempotent":
		return k.verifiable(ctx, r, topic)
	case "group":
		return k.group(ctx, r, topic)
	case "seek offset":
		return k.seekOffset(ctx, r, topic)
	case "seek time":
		return k.seekTime(ctx, r, topic)
	case "topics":
		return k.topics(ctx, r, topic)
	case "partitions":
		return k.partitions(ctx, r, topic)
	case "configs":
		return k.configs(ctx, r, topic)
	case "groups":
		return k.groups(ctx, r, topic)
	case "delete records":
		return k.deleteRecords(ctx, r, topic)
	}
	return errUnsupported
}

// codec feeds the console producer and reads with the console consumer.
func (k kafkaTools) codec(ctx context.Context, r *reference, topic, codec string) error {
	if err := r.topic(ctx, topic, 1); err != nil {
		return err
	}
	var in bytes.Buffer
	for i := range int64(300) {
		fmt.Fprintf(&in, "%s:%s\n", proto.Key(i), proto.Value(i))
	}
	_, err := k.tool(ctx, &in, "kafka-console-producer", "--bootstrap-server", k.addr, "--topic", topic,
		"--compression-codec", codec, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
		"--command-property", "acks=all")
	if err != nil {
		return err
	}
	if err := r.expect(ctx, topic, 1, 300, codec, 0); err != nil {
		return err
	}
	if codec != "none" {
		return nil // one JVM less: what the consumer reads was seen above
	}
	out, err := k.console(ctx, topic, "--from-beginning", "--max-messages", "300")
	if err != nil {
		return err
	}
	return sequence(out, 0, 0, 1, 300)
}

// console consumes and prints offset:value lines.
func (k kafkaTools) console(ctx context.Context, topic string, args ...string) (string, error) {
	out, err := k.server(ctx, "kafka-console-consumer", append([]string{
		"--topic", topic, "--formatter-property", "print.offset=true", "--formatter-property", "key.separator=:",
		"--timeout-ms", "120000",
	}, args...)...)
	return regexp.MustCompile(`(?m)^Offset:`).ReplaceAllString(out, ""), err
}

// verifiable runs the producer of Kafka's own system tests, which is idempotent by default.
func (k kafkaTools) verifiable(ctx context.Context, r *reference, topic string) error {
	if err := r.topic(ctx, topic, 3); err != nil {
		return err
	}
	out, err := k.server(ctx, "kafka-verifiable-producer", "--topic", topic, "--max-messages", "1000", "--acks", "-1")
	if err != nil {
		return err
	}
	if err := want(out, `"sent":1000,"acked":1000|"acked":1000`); err != nil {
		return err
	}
	recs, err := r.read(ctx, topic)
	if err == nil && len(recs) != 1000 {
		err = fmt.Errorf("%d records, want 1000", len(recs))
	}
	return err
}

// group lets the consumer of Kafka's system tests read all of a topic.
func (k kafkaTools) group(ctx context.Context, r *reference, topic string) error {
	if err := r.topic(ctx, topic, groupParts); err != nil {
		return err
	}
	if err := r.produce(ctx, topic, groupParts, 0, 600); err != nil {
		return err
	}
	out, err := k.server(ctx, "kafka-verifiable-consumer", "--topic", topic, "--group-id", topic,
		"--max-messages", "600", "--reset-policy", "earliest", "--session-timeout", proto.Itoa(proto.Session.Milliseconds()))
	if err != nil {
		return err
	}
	for _, p := range []string{`"name":"partitions_assigned"`, `"name":"offsets_committed"`, `"name":"shutdown_complete"`} {
		if err := want(out, p); err != nil {
			return err
		}
	}
	return r.drained(ctx, topic, topic)
}

func (k kafkaTools) seekOffset(ctx context.Context, r *reference, topic string) error {
	if err := r.fill(ctx, topic, 100); err != nil {
		return err
	}
	out, err := k.console(ctx, topic, "--partition", "0", "--offset", "37", "--max-messages", "20")
	if err != nil {
		return err
	}
	return sequence(out, 37, 37, 1, 20)
}

func (k kafkaTools) seekTime(ctx context.Context, r *reference, topic string) error {
	if err := r.fillTimed(ctx, topic); err != nil {
		return err
	}
	out, err := k.server(ctx, "kafka-get-offsets", "--topic", topic, "--time", proto.Itoa(baseTime+60_001))
	if err != nil {
		return err
	}
	if err := want(out, topic+":0:61\n"); err != nil {
		return err
	}
	if out, err = k.server(ctx, "kafka-get-offsets", "--topic", topic, "--time", "max-timestamp"); err != nil {
		return err
	}
	return want(out, topic+":0:99\n")
}

func (k kafkaTools) topics(ctx context.Context, r *reference, topic string) error {
	create := []string{"--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=86400000"}
	if _, err := k.server(ctx, "kafka-topics", create...); err != nil {
		return err
	}
	if _, err := k.server(ctx, "kafka-topics", create...); err == nil {
		return fmt.Errorf("a second create of %s succeeded", topic)
	}
	out, err := k.server(ctx, "kafka-topics", "--describe", "--topic", topic)
	if err != nil {
		return err
	}
	if err := want(out, `PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=86400000`); err != nil {
		return err
	}
	if err := want(out, `Partition: 2\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+`); err != nil {
		return err
	}
	if out, err = k.server(ctx, "kafka-topics", "--list"); err != nil {
		return err
	}
	if err := want(out, `(?m)^`+topic+`$`); err != nil {
		return err
	}
	if _, err := k.server(ctx, "kafka-topics", "--delete", "--topic", topic); err != nil {
		return err
	}
	if err := r.gone(ctx, topic); err != nil {
		return err
	}
	if out, err = k.server(ctx, "kafka-broker-api-versions"); err != nil {
		return err
	}
	if err := want(out, `Fetch\(1\): \d+ to \d+`); err != nil {
		return err
	}
	if out, err = k.tool(ctx, nil, "kafka-cluster", "cluster-id", "--bootstrap-server", k.addr); err != nil {
		return err
	}
	return want(out, `Cluster ID: \S+`)
}

func (k kafkaTools) partitions(ctx context.Context, r *reference, topic string) error {
	if err := r.topic(ctx, topic, 2); err != nil {
		return err
	}
	if _, err := k.server(ctx, "kafka-topics", "--alter", "--topic", topic, "--partitions", "5"); err != nil {
		return err
	}
	if err := r.has(ctx, topic, 5); err != nil {
		return err
	}
	out, err := k.server(ctx, "kafka-log-dirs", "--describe", "--topic-list", topic)
	if err != nil {
		return err
	}
	return want(out, `"partition":"`+topic+`-4"`)
}

func (k kafkaTools) configs(ctx context.Context, r *reference, topic string) error {
	if err := r.topic(ctx, topic, 1); err != nil {
		return err
	}
	entity := []string{"--entity-type", "topics", "--entity-name", topic}
	if _, err := k.server(ctx, "kafka-configs", append(entity, "--alter", "--add-config", "retention.ms=3600000,cleanup.policy=[delete]")...); err != nil {
		return err
	}
	out, err := k.server(ctx, "kafka-configs", append(entity, "--describe", "--all")...)
	if err != nil {
		return err
	}
	if err := want(out, `retention.ms=3600000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention.ms=3600000`); err != nil {
		return err
	}
	if err := want(out, `min.insync.replicas=1 `); err != nil {
		return err
	}
	if _, err := k.server(ctx, "kafka-configs", append(entity, "--alter", "--delete-config", "retention.ms")...); err != nil {
		return err
	}
	if out, err = k.server(ctx, "kafka-configs", append(entity, "--describe")...); err != nil {
		return err
	}
	if strings.Contains(out, "retention.ms=3600000") {
		return fmt.Errorf("retention.ms is still there: %q", out)
	}
	_, err = k.server(ctx, "kafka-configs", append(entity, "--alter", "--add-config", "no.such.config=1")...)
	if err == nil {
		return fmt.Errorf("an unknown configuration was taken")
	}
	return nil
}

func (k kafkaTools) groups(ctx context.Context, r *reference, topic string) error {
	if err := r.topic(ctx, topic, groupParts); err != nil {
		return err
	}
	if err := r.produce(ctx, topic, groupParts, 0, 60); err != nil {
		return err
	}
	if _, err := k.console(ctx, topic, "--group", topic, "--from-beginning", "--max-messages", "60"); err != nil {
		return err
	}
	out, err := k.server(ctx, "kafka-consumer-groups", "--list")
	if err != nil {
		return err
	}
	if err := want(out, `(?m)^`+topic+`$`); err != nil {
		return err
	}
	if out, err = k.server(ctx, "kafka-consumer-groups", "--describe", "--group", topic); err != nil {
		return err
	}
	if err := want(out, topic+`\s+`+topic+`\s+5\s+10\s+10\s+0`); err != nil {
		return err
	}
	_, err = k.server(ctx, "kafka-consumer-groups", "--group", topic, "--topic", topic+":2", "--reset-offsets", "--to-offset", "4", "--execute")
	if err != nil {
		return err
	}
	now, err := r.committed(ctx, topic, topic)
	if err != nil {
		return err
	}
	if now[2] != 4 || now[3] != 10 {
		return fmt.Errorf("offsets after a reset are %v", now)
	}
	if _, err := k.server(ctx, "kafka-consumer-groups", "--group", topic, "--topic", topic, "--delete-offsets"); err != nil {
		return err
	}
	if out, err = k.server(ctx, "kafka-consumer-groups", "--delete", "--group", topic); err != nil {
		return err
	}
	return want(out, `successful`)
}

func (k kafkaTools) deleteRecords(ctx context.Context, r *reference, topic string) error {
	if err := r.fill(ctx, topic, 100); err != nil {
		return err
	}
	file := filepath.Join(k.work, "delete-records.json")
	text := fmt.Sprintf(`{"partitions":[{"topic":%q,"partition":0,"offset":40}],"version":1}`, topic)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	out, err := k.server(ctx, "kafka-delete-records", "--offset-json-file", file)
	if err != nil {
		return err
	}
	if err := want(out, topic+`-0\s+low_watermark: 40`); err != nil {
		return err
	}
	if out, err = k.console(ctx, topic, "--from-beginning", "--max-messages", "60"); err != nil {
		return err
	}
	return sequence(out, 40, 40, 1, 60)
}
