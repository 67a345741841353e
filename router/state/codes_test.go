package state

import (
	"testing"

	"polylog/core"
)

// Supports knows the codes that Apply knows, no others: what it lets pass ends nobody.
func TestSupportsWhatApplyKnows(t *testing.T) {
	m := newMachine(t)
	for code := range 256 {
		c := core.Command{Code: core.Code(code), Head: []byte{0xff}}
		e := core.Entry{Index: m.state.Applied() + 1, Term: 1, Data: core.AppendCommand(core.AppendEntryHeader(nil, 1), &c)}
		m.state.Apply([]core.Entry{e})
		err := m.state.Supports(c.Code)
		if (m.fatal == nil) != (err == nil) || err != nil && core.KindOf(err) != core.Unsupported {
			t.Errorf("code %d: Apply says %v, Supports %v", code, m.fatal, err)
		}
		m.fatal, m.state.storeErr = nil, nil
	}
}
