package mqtt

// aliasTable has the topic aliases that we set for a client (section 3.3.2.3.4): for the first
// names that it gets messages of, as many as it allows. An alias holds for what comes after it
// on the wire, so the table is guarded by the lock of the outbox.
type aliasTable struct {
	most int // aliases that there may be
	set  map[string]uint16
}

// maxOwnAliases bounds the aliases that we set for one client, whatever it allows.
const maxOwnAliases = 16

// of is the alias of a name, 0 for none, and whether the client knows it already.
func (t *aliasTable) of(name string) (alias uint16, known bool) {
	if alias, known = t.set[name]; known || len(t.set) >= t.most {
		return alias, known
	}
	if t.set == nil {
		t.set = map[string]uint16{}
	}
	alias = uint16(len(t.set)) + 1
	t.set[name] = alias
	return alias, false
}
