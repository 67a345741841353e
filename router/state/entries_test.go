package state

import "polylog/core"

// entries makes log entries and keeps them, to be applied again.
type entries struct {
	all  []core.Entry
	term core.Term
	time int64
}

func newEntries() *entries { return &entries{term: 1, time: 1_000_000} }

// take is the next entry, with these commands.
func (e *entries) take(cs ...core.Command) []core.Entry {
	data := core.AppendEntryHeader(nil, e.time)
	for i := range cs {
		data = core.AppendCommand(data, &cs[i])
	}
	return e.raw(data)
}

// raw is the next entry, with this data.
func (e *entries) raw(data []byte) []core.Entry {
	e.all = append(e.all, core.Entry{Index: core.LogIndex(len(e.all) + 1), Term: e.term, Data: data})
	return e.all[len(e.all)-1:]
}
