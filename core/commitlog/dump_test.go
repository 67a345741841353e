package commitlog

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"polylog/core"
)

func TestDump(t *testing.T) {
	fs, o, _ := smallLog(t)
	var b strings.Builder
	err := Dump(fs, o.Dir, &b, DumpOptions{From: 5, To: 6, Decode: func(w io.Writer, e Entry) error {
		_, err := fmt.Fprintf(w, "    ext %q\n", e.Ext)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`crc=[0-9a-f]{8}`).ReplaceAllString(b.String(), "crc=X")
	want := `segment log/00000000000000000001.log base=1 prev_term=0 bytes=4584
  entry 5 term=3 type=1 offset=4480 data=60 ext=5 crc=X
    ext "ext 5"
  end offset=4584 next=6 found="the file ends" sum=`
	if !strings.HasPrefix(got, want) || !strings.Contains(got, "\n  entry 6 ") || strings.Contains(got, "entry 7") {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDumpDamage(t *testing.T) {
	fs, o, _ := smallLog(t)
	path := o.Dir + "/" + fileName(11, segmentExt)
	b := getFile(t, fs, path)
	b[len(b)-30] ^= 4
	putFile(t, fs, path, b)
	var out strings.Builder
	err := Dump(fs, o.Dir, &out, DumpOptions{})
	if !errors.Is(err, core.Corrupt) || !strings.Contains(out.String(), `next=12 found="the entry fails its checksum"`) {
		t.Fatalf("%v\n%s", err, out.String())
	}
	r, err := Check(fs, o.Dir)
	if err != nil || len(r.Damage) != 1 || r.Last != 11 || r.Entries != 11 {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestPolicyTexts(t *testing.T) {
	for _, p := range []FlushPolicy{FlushSync, FlushInterval, FlushOS} {
		if got, err := ParseFlushPolicy(p.String()); err != nil || got != p {
			t.Errorf("%s: %v %v", p, got, err)
		}
	}
	if _, err := ParseFlushPolicy("never"); !errors.Is(err, core.Invalid) {
		t.Error(err)
	}
}
