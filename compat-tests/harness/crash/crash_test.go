package crash

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"polylog/compat/harness"
	"polylog/compat/harness/ledger"
)

// TestMain is the broker, too, where it is started as one: it listens, and its check says what the
// environment has it say.
func TestMain(m *testing.M) {
	switch {
	case slices.Contains(os.Args[1:], "serve"):
		serve(os.Args[2:])
	case slices.Contains(os.Args[1:], "check"):
		if os.Getenv("DAMAGED") != "" {
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

func serve(args []string) {
	value := func(name string) string {
		for i := range args {
			if args[i] == name {
				return args[i+1]
			}
		}
		return ""
	}
	l, err := net.Listen("tcp", value("--kafka-listen"))
	if err == nil {
		err = os.WriteFile(value("--addr-file"), []byte("kafka="+l.Addr().String()+"\n"), 0o644)
	}
	if err != nil {
		os.Exit(1)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		_ = c.Close()
	}
}

// load counts what it is asked for and answers as a test wants it.
type load struct {
	ledger.Faults
	broker            *harness.Broker
	killed, checked   int
	onCheck, onFinish error
	onKilled          string // a broken promise
}

func (l *load) Start(context.Context, func() error) error { return nil }
func (l *load) Progress(context.Context) error            { return nil }
func (l *load) Check(context.Context) error               { l.checked++; return l.onCheck }
func (l *load) Finish(context.Context) error              { return l.onFinish }
func (l *load) Summary() string                           { return "a load" }

func (l *load) Killed() {
	l.killed++
	if l.onKilled != "" {
		l.Fail("%s", l.onKilled)
	}
}

// TestFinds: a run fails where anything was wrong, and only then.
func TestFinds(t *testing.T) {
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		load    *load
		damaged string
		want    string // the first broken promise; empty: none
	}{
		"good":             {load: &load{}},
		"a broken promise": {load: &load{onKilled: "lost"}, want: "lost"},
		"a bad start":      {load: &load{onCheck: errors.New("gone")}, want: "check after kill 1: gone"},
		"a bad end":        {load: &load{onFinish: errors.New("gone")}, want: "gone"},
		"a damaged log":    {load: &load{}, damaged: "1", want: "polylog check: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DAMAGED", c.damaged)
			o := options{bin: bin, dir: t.TempDir(), flush: "sync", kills: 1}
			l := c.load
			failed, err := o.run(t.Context(), func(b *harness.Broker, _ uint64) Load { l.broker = b; return l })
			if err != nil {
				t.Fatal(err)
			}
			_, wrong := l.Wrong()
			if failed != (c.want != "") || !strings.HasPrefix(strings.Join(wrong, "; "), c.want) {
				t.Errorf("failed: %v, %q; want %q", failed, wrong, c.want)
			}
			if l.killed != 1 || l.checked != 1 {
				t.Errorf("%d kills, %d checks", l.killed, l.checked)
			}
			select {
			case <-l.broker.Done():
			default:
				t.Error("the first broker was not killed")
			}
		})
	}
}

// TestNoKills: a run that kills nothing proves nothing.
func TestNoKills(t *testing.T) {
	if _, err := new(options).run(t.Context(), nil); err == nil {
		t.Error("a run without kills is good")
	}
}
