package main

import (
	"fmt"
	"io"
	"strings"

	"polylog/cmd/polylog/config"
	"polylog/router"
)

// writeReference writes docs/configuration.md: our settings, and then those that have
// Kafka's names.
func writeReference(w io.Writer) error {
	if err := config.WriteReference(w); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(`
## Broker settings

Kafka's own names, for ` + "`broker-config`" + ` and for Kafka's tools. What is fixed cannot be
set at all, and giving it another value is an error, except where "at the start" follows.
The others can be altered at run time and hold for the whole cluster then; limits of
connections and groups are taken over when the broker starts.

| name | type | default | meaning |
| --- | --- | --- | --- |
`)
	for _, k := range router.BrokerConfigKeys() {
		writeKey(&b, &k)
	}
	b.WriteString(`
## Topic settings

Set with ` + "`polylog topic create -c name=value`" + `, ` + "`polylog topic alter -c name=value`" + ` or Kafka's tools.
A topic without a value of its own takes that of the first broker setting named under
"or" that has one.

| name | type | default | meaning |
| --- | --- | --- | --- |
`)
	for _, k := range router.TopicConfigKeys() {
		writeKey(&b, &k)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeKey writes a row of one of the tables.
func writeKey(b *strings.Builder, k *router.ConfigKey) {
	def := "none"
	if !k.Unset {
		def = "`" + k.Default + "`"
		if k.Default == "" {
			def = "empty"
		}
	}
	doc := k.Doc
	switch {
	case k.Static:
		doc += " Fixed at the start."
	case k.Instead != "":
		doc += " Fixed: use `" + k.Instead + "`."
	case k.ReadOnly:
		doc += " Fixed."
	}
	if len(k.Synonyms) > 0 {
		var names []string
		for _, s := range k.Synonyms {
			names = append(names, "`"+s.Name+"`")
		}
		doc += " Or " + strings.Join(names, ", ") + "."
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.Name, k.Type, def, strings.ReplaceAll(doc, "|", `\|`))
}
