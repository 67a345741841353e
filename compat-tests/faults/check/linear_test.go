package check

import (
	"slices"
	"testing"
	"time"
)

// op is an operation on value k between two times.
func op(client int, kind Kind, value int64, call, ret time.Duration) Op {
	return Op{Client: client, Key: "k", Kind: kind, Value: value, Call: call, Return: ret}
}

func lost(o Op) Op { o.Unknown = true; return o }

// Each bad history must be found, and each good one must not.
func TestLinearizable(t *testing.T) {
	for name, c := range map[string]struct {
		bad bool
		ops []Op
	}{
		"nothing there":         {false, []Op{op(1, Read, Absent, 0, 1)}},
		"read what was written": {false, []Op{op(1, Write, 5, 0, 1), op(2, Read, 5, 2, 3)}},
		"read while it is written": {false, []Op{
			op(1, Write, 5, 0, 1), op(1, Write, 6, 2, 9), op(2, Read, 6, 3, 4), op(3, Read, 6, 5, 6),
		}},
		"lost write":                {true, []Op{op(1, Write, 5, 0, 1), op(2, Read, Absent, 2, 3)}},
		"stale read":                {true, []Op{op(1, Write, 5, 0, 1), op(1, Write, 6, 2, 3), op(2, Read, 5, 4, 5)}},
		"going back":                {true, []Op{op(1, Write, 5, 0, 1), op(1, Write, 6, 2, 9), op(2, Read, 6, 3, 4), op(3, Read, 5, 5, 6)}},
		"never written":             {true, []Op{op(1, Write, 5, 0, 1), op(2, Read, 7, 2, 3)}},
		"unanswered, happened":      {false, []Op{lost(op(1, Write, 5, 0, 1)), op(2, Read, 5, 2, 3)}},
		"unanswered, did not":       {false, []Op{lost(op(1, Write, 5, 0, 1)), op(2, Read, Absent, 2, 3)}},
		"unanswered, happened late": {false, []Op{lost(op(1, Write, 5, 0, 1)), op(2, Read, Absent, 2, 3), op(2, Read, 5, 4, 5)}},
		"unanswered, and undone": {true, []Op{
			lost(op(1, Write, 5, 0, 1)), op(2, Read, 5, 2, 3), op(2, Read, Absent, 4, 5),
		}},
		"unanswered, twice": {true, []Op{
			lost(op(1, Write, 5, 0, 1)), op(2, Read, 5, 2, 3), op(2, Write, 6, 4, 5), op(2, Read, 6, 6, 7), op(2, Read, 5, 8, 9),
		}},
		"created once":         {false, []Op{op(1, Create, Absent, 0, 5), op(2, Create, 1, 0, 5), op(1, Read, 1, 6, 7)}},
		"created by two":       {true, []Op{op(1, Create, Absent, 0, 5), op(2, Create, Absent, 0, 5)}},
		"there before":         {true, []Op{op(1, Create, 1, 0, 5)}},
		"deleted":              {false, []Op{op(1, Create, Absent, 0, 1), op(2, Delete, 1, 2, 3), op(1, Read, Absent, 4, 5), op(1, Delete, Absent, 6, 7)}},
		"deleted, there still": {true, []Op{op(1, Create, Absent, 0, 1), op(2, Delete, 1, 2, 3), op(1, Read, 1, 4, 5)}},
		"deleted by two":       {true, []Op{op(1, Create, Absent, 0, 1), op(2, Delete, 1, 2, 5), op(3, Delete, 1, 2, 5)}},
		"missing right after":  {true, []Op{op(1, Create, Absent, 0, 1), op(2, Delete, Absent, 2, 3)}},
		"created, never there": {true, []Op{op(1, Create, Absent, 0, 1), op(2, Read, Absent, 2, 3)}},
		"perhaps created":      {false, []Op{lost(op(1, Create, 0, 0, 1)), op(1, Create, 1, 2, 3)}},
		"perhaps not created":  {false, []Op{lost(op(1, Create, 0, 0, 1)), op(1, Create, Absent, 2, 3)}},
		"perhaps deleted":      {false, []Op{op(1, Create, Absent, 0, 1), lost(op(1, Delete, 0, 2, 3)), op(1, Read, Absent, 4, 5)}},
		"unanswered read":      {false, []Op{lost(op(1, Read, 9, 0, 1))}},
		"of an unknown kind":   {true, []Op{op(1, "dance", 1, 0, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			wrong, undecided := Linearizable(c.ops, 10*time.Second)
			if len(undecided) > 0 || slices.Equal(wrong, []string{"k"}) != c.bad {
				t.Errorf("wrong %v, undecided %v; bad is %t", wrong, undecided, c.bad)
			}
		})
	}
}

// Values are judged one by one: a bad one is named, and hides nothing.
func TestLinearizableNamesTheValue(t *testing.T) {
	a := op(1, Write, 5, 0, 1)
	b := op(1, Read, 5, 2, 3)
	b.Key = "other"
	wrong, _ := Linearizable([]Op{a, b}, 10*time.Second)
	if !slices.Equal(wrong, []string{"other"}) {
		t.Errorf("wrong %v, want other", wrong)
	}
}
