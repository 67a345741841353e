package check

import (
	"strings"
	"testing"
)

const head = "segment /d/log/1.log base=1 prev_term=0 bytes=4194304 durable=4496 boot=0e27\n"

func replica(t *testing.T, name, dump string) Replica {
	t.Helper()
	r, err := ReadDump(name, strings.NewReader(head+dump+"  end offset=4496 next=7 found=\"zeros\" sum=5ebfad79\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReplicasMustBeTheSame(t *testing.T) {
	const (
		one   = "  entry 1 term=1 type=5 offset=4096 data=41 ext=0 crc=0686b849\n"
		two   = "  entry 2 term=2 type=1 offset=4176 data=0 ext=0 crc=7e433189\n"
		three = "  entry 3 term=2 type=0 offset=4208 data=16 ext=0 crc=3f1f7f34\n"
	)
	all := one + two + three
	for name, c := range map[string]struct{ other, want string }{
		"same":          {all, ""},
		"elsewhere":     {one + two + strings.Replace(three, "4208", "9000", 1), ""},
		"trimmed":       {two + three, ""},
		"shorter":       {one + two, "n1 ends with entry 3, n2 with entry 2"},
		"longer":        {all + "  entry 4 term=2 type=0 offset=5000 data=1 ext=0 crc=00000000\n", "n2 with entry 4"},
		"empty":         {"", "n2 holds no entry"},
		"other bytes":   {one + two + strings.Replace(three, "3f1f", "3f1e", 1), "entry 3 of n2"},
		"other term":    {one + strings.Replace(two, "term=2", "term=1", 1) + three, "entry 2 of n2"},
		"other trimmed": {strings.Replace(two, "term=2", "term=1", 1) + three, "entry 2 of n2"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Same([]Replica{replica(t, "n1", all), replica(t, "n2", c.other)})
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestReadDumpFindsHoles(t *testing.T) {
	for _, dump := range []string{
		"  entry 1 term=1 type=5 offset=4096 data=41 ext=0 crc=0\n  entry 3 term=1 type=5 offset=4096 data=41 ext=0 crc=0\n",
		"  entry 1 term=1\n", "  entry x term=1 type=5 offset=4096 data=41 ext=0 crc=0\n",
	} {
		if _, err := ReadDump("n", strings.NewReader(dump)); err == nil {
			t.Errorf("%q is no error", dump)
		}
	}
}
