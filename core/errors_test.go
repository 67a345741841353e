package core

import (
	"errors"
	"fmt"
	"testing"
)

func TestKinds(t *testing.T) {
	wrapped := fmt.Errorf("read topic: %w", E(NotFound, "topic %q", "t"))
	if !errors.Is(wrapped, NotFound) || errors.Is(wrapped, Exists) {
		t.Error("an error must be its own kind and no other")
	}
	for _, c := range []struct {
		err  error
		want Kind
	}{{nil, OK}, {wrapped, NotFound}, {Denied, Denied}, {errors.New("other"), Internal}} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
	for k := OK; k <= Closed; k++ {
		if k.Error() == "" {
			t.Errorf("kind %d has no words", k)
		}
	}
}
