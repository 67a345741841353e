package main

import "testing"

// The ledger is what all else relies on: it must notice.
func TestLedgerNoticesChange(t *testing.T) {
	p := partition{"t", 0}
	l := newLedger()
	l.note(p, 3, newID(1, 7), true, "ack")
	l.note(p, 3, newID(1, 7), false, "read")
	if f := l.faults(); f != nil {
		t.Fatalf("faults of a constant record: %v", f)
	}
	l.note(p, 3, newID(1, 8), false, "read")
	if f := l.faults(); len(f) != 1 {
		t.Fatalf("faults of a changed record: %v", f)
	}
	if got := l.ends()[p]; got != 4 {
		t.Fatalf("least end %d, want 4", got)
	}
	if got := l.acked(); got != 1 {
		t.Fatalf("%d acknowledged, want 1", got)
	}
}

func TestLedgerKeepsHighestCommit(t *testing.T) {
	l := newLedger()
	l.commit(partition{"t", 0}, 5)
	l.commit(partition{"t", 0}, 3)
	if got := l.commits()[partition{"t", 0}]; got != 5 {
		t.Fatalf("commit %d, want 5", got)
	}
}

func TestRecordID(t *testing.T) {
	id := newID(3, 123456)
	if id.producer() != 3 || id.seq() != 123456 || id.String() != "3/123456" {
		t.Fatalf("id %v: producer %d, seq %d", id, id.producer(), id.seq())
	}
}
