package router_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"polylog/router"
)

var rewrite = flag.Bool("rewrite", false, "write docs/kafka-configuration.md anew")

const docFile = "../docs/kafka-configuration.md"

const docIntro = `# Kafka configuration keys

Generated from the code by ` + "`go test ./router -rewrite`" + `; a test compares the two.

Topics and the broker have Kafka 4's configuration keys, so that Kafka's tools work.
A topic key's value is what was set on the topic, else what was set for the broker key
named beside it (at run time, for the whole cluster, with ` + "`kafka-configs --entity-type brokers`" + `;
else in the node's ` + "`broker-config`" + `), else the default. Keys that have no effect here say so.

`

// TestConfigDoc keeps the reference for users in step with the code.
func TestConfigDoc(t *testing.T) {
	var b strings.Builder
	b.WriteString(docIntro + "## Topics\n\n| key | type | default | broker keys | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, k := range router.TopicConfigKeys() {
		var names []string
		for _, s := range k.Synonyms {
			names = append(names, "`"+s.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.Type, value(k), strings.Join(names, ", "), k.Doc)
	}
	b.WriteString("\n## Broker\n\nThose marked fixed cannot be changed at run time.\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, k := range router.BrokerConfigKeys() {
		doc := k.Doc
		if k.ReadOnly {
			doc += " Fixed."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, k.Type, value(k), doc)
	}
	if *rewrite {
		if err := os.WriteFile(docFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("%s is out of date, run go test ./router -rewrite:\n%s", docFile, diff)
	}
}

func value(k router.ConfigKey) string {
	if k.Unset {
		return "none"
	}
	if k.Default == "" {
		return "empty"
	}
	return "`" + k.Default + "`"
}
