package main

import (
	"slices"
	"testing"
)

func TestSeedsRepeatTheSchedule(t *testing.T) {
	a, b, c := plan(1, 100, kinds), plan(1, 100, kinds), plan(2, 100, kinds)
	if !slices.Equal(a, b) {
		t.Error("one seed gives two schedules")
	}
	if slices.Equal(a, c) {
		t.Error("two seeds give one schedule")
	}
}

func TestEachKindIsTried(t *testing.T) {
	tried := map[string]int{}
	for _, f := range plan(7, len(kinds)+10, kinds) {
		tried[f.Kind]++
	}
	for _, k := range kinds {
		if tried[k.name] == 0 {
			t.Errorf("%s is not tried", k.name)
		}
	}
	if got := len(plan(7, 3, kinds)); got != 3 {
		t.Errorf("%d faults, want 3", got)
	}
}

func TestChoose(t *testing.T) {
	one, err := choose(kinds, 1, "")
	if err != nil || len(one) == 0 || len(one) == len(kinds) {
		t.Errorf("one node has %d of %d kinds, %v", len(one), len(kinds), err)
	}
	if _, err := choose(kinds, 1, "cut"); err == nil {
		t.Error("one node can be cut off from itself")
	}
	if two, err := choose(kinds, 3, "cut,kill"); err != nil || len(two) != 2 {
		t.Errorf("chose %v, %v", two, err)
	}
}
