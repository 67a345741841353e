package check

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is what an operation does to a value.
type Kind string

// The kinds. A value is a whole number; Absent is none.
const (
	Write  Kind = "write"  // the value becomes Value
	Read   Kind = "read"   // the value was Value
	Create Kind = "create" // an absent value becomes 1; Value tells what was there
	Delete Kind = "delete" // the value becomes Absent; Value tells what was there
)

// Absent is the value of what is not there.
const Absent = -1

// Op is what one client did to one value.
type Op struct {
	Client  int           `json:"client"`
	Key     string        `json:"key"` // names the value; values know nothing of each other
	Kind    Kind          `json:"kind"`
	Value   int64         `json:"value"`
	Unknown bool          `json:"unknown,omitempty"` // no answer: it may have happened, or happen later
	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"`
}

func (o Op) String() string {
	return fmt.Sprintf("client %d: %s %s %d (unknown %t) from %v to %v", o.Client, o.Kind, o.Key, o.Value, o.Unknown, o.Call, o.Return)
}

// step says whether the operation can have happened to the value, and what it is then.
func (o Op) step(value int64) (bool, int64) {
	switch o.Kind {
	case Write:
		return true, o.Value
	case Read:
		return o.Unknown || value == o.Value, value
	case Create:
		if value == Absent {
			return o.Unknown || o.Value == Absent, 1
		}
		return o.Unknown || o.Value != Absent, value
	case Delete:
		return o.Unknown || (value == Absent) == (o.Value == Absent), Absent
	}
	return false, value
}

var model = porcupine.Model{
	Init: func() any { return int64(Absent) },
	Step: func(state, input, _ any) (bool, any) {
		ok, value := input.(Op).step(state.(int64))
		return ok, value
	},
	DescribeOperation: func(input, _ any) string { return input.(Op).String() },
}

// Linearizable names the values whose operations no order explains that respects what came after
// what, and those for which the time did not suffice to tell.
func Linearizable(ops []Op, timeout time.Duration) (wrong, undecided []string) {
	byKey := map[string][]porcupine.Operation{}
	for _, o := range ops {
		end := int64(o.Return)
		if o.Unknown {
			if o.Kind == Read {
				continue
			}
			end = math.MaxInt64 // it may happen at any time from its call on
		}
		byKey[o.Key] = append(byKey[o.Key], porcupine.Operation{ClientId: o.Client, Input: o, Call: int64(o.Call), Return: end})
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		switch porcupine.CheckOperationsTimeout(model, byKey[key], timeout) {
		case porcupine.Illegal:
			wrong = append(wrong, key)
		case porcupine.Unknown:
			undecided = append(undecided, key)
		case porcupine.Ok:
		}
	}
	return wrong, undecided
}
