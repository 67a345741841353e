package state

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"polylog/core"
)

// hookCommand has the commands about hooks:
//
//	hook NAME [revision=N] [settings=TEXT] [secrets=TEXT]
//	delete-hook NAME
func (s *script) hookCommand(name core.Name) (c core.Command, show func(core.Result) string) {
	text := func(option string) string {
		v, _ := s.option(option)
		return v
	}
	show = func(core.Result) string { return "" }
	switch s.d.Cmd {
	case "hook":
		c := SetHook{Name: name, Settings: text("settings"), Secrets: text("secrets")}
		if n, ok := s.option("revision"); ok {
			c.Revision = uint64(s.number(n))
		}
		return c.Command(), show
	case "delete-hook":
		c := DeleteHook{name}
		return c.Command(), show
	}
	return c, nil
}

// dumpHooks shows the hooks, by name.
func (m *machine) dumpHooks(b *strings.Builder) {
	all, err := ReadHooks(m.store, core.DefaultNamespace, "", 1000)
	m.must(err)
	for _, h := range all {
		fmt.Fprintf(b, "hook %s created=%d revision=%d settings=%q secrets=%q\n", h.Name, h.Created, h.Revision, h.Settings, h.Secrets)
	}
}

func TestDescribeHidesSecretsOfHooks(t *testing.T) {
	hook := SetHook{Name: core.TopicName("h"), Revision: 2, Settings: "{}", Secrets: "whsec_1"}
	described(t, hook.Command(), "set hook {Name:h Revision:2 Settings:{} Secrets:(7 bytes)}")
	described(t, (&DeleteHook{core.TopicName("h")}).Command(), "delete hook {Name:h}")
}

func FuzzHookValues(f *testing.F) {
	f.Add((&Hook{core.TopicName("h"), 5, 1, "{}", "s"}).encode())
	f.Fuzz(func(t *testing.T, v []byte) {
		h, err := decodeHook(v)
		if err != nil {
			return
		}
		if got, err := decodeHook(h.encode()); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%+v became %+v, %v", h, got, err)
		}
	})
}
