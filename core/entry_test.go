package core

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

func testEntry(cmds ...Command) Entry {
	data := AppendEntryHeader(nil, 1234)
	for i := range cmds {
		data = AppendCommand(data, &cmds[i])
	}
	return Entry{Index: 7, Term: 2, Data: data}
}

func TestEntryRoundTrip(t *testing.T) {
	e := testEntry(
		Command{Code: 3, Head: []byte("head"), Payload: []byte("payload")},
		Command{Code: 4},
	)
	if e.Time() != 1234 {
		t.Fatalf("time %d", e.Time())
	}
	var got []string
	err := e.Commands(func(code Code, body []byte, pos uint32) {
		if !bytes.Equal(e.Data[pos:int(pos)+len(body)], body) {
			t.Errorf("position %d does not lead to %q", pos, body)
		}
		got = append(got, fmt.Sprintf("%d:%s", code, body))
	})
	if err != nil || fmt.Sprint(got) != "[3:headpayload 4:]" {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestEntryMalformed(t *testing.T) {
	whole := testEntry(Command{Code: 1, Payload: []byte("abc")}).Data
	for n := range whole {
		if n == EntryHeaderLen {
			continue // an entry without commands is well formed
		}
		err := Entry{Data: whole[:n]}.Commands(func(Code, []byte, uint32) {})
		if !errors.Is(err, Corrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	newer := bytes.Clone(whole)
	newer[0]++
	if err := (Entry{Data: newer}).Commands(nil); !errors.Is(err, Corrupt) {
		t.Errorf("newer version: %v", err)
	}
}

func FuzzEntry(f *testing.F) {
	f.Add(testEntry(Command{Code: 1, Payload: []byte("abc")}).Data)
	f.Fuzz(func(t *testing.T, data []byte) {
		e := Entry{Data: data}
		total := EntryHeaderLen
		err := e.Commands(func(_ Code, body []byte, pos uint32) {
			if int(pos)+len(body) > len(data) {
				t.Fatal("body past the end")
			}
			total += CommandHeaderLen + len(body)
		})
		if err == nil && total != len(data) {
			t.Fatalf("%d bytes accounted for, %d given", total, len(data))
		}
	})
}
