package state

import (
	"polylog/core"
	"polylog/core/wire"
	"polylog/index"
)

// Hook is an address that takes other people's webhooks. What they are checked by and where
// they go is the protocol's: text that this package only keeps.
type Hook struct {
	Name     core.Name
	Created  int64  // ms
	Revision uint64 // how often it was set; 1 at first
	Settings string // JSON
	Secrets  string // JSON; shown to nobody, not even in descriptions of commands
}

// maxHook bounds settings and secrets, in bytes each.
const maxHook = 16 << 10

// A hook's value: version byte, name, created varint, revision uvarint, settings, secrets.
func (h *Hook) encode() []byte {
	b := wire.AppendVarint(appendName([]byte{valueVersion}, h.Name), h.Created)
	b = wire.AppendUvarint(b, h.Revision)
	return wire.AppendString(wire.AppendString(b, h.Settings), h.Secrets)
}

func decodeHook(v []byte) (*Hook, error) {
	r := wire.NewReader(v)
	if err := checkVersion(&r, "hook"); err != nil {
		return nil, err
	}
	h := &Hook{Name: readName(&r), Created: r.Varint(), Revision: r.Uvarint(), Settings: r.String(), Secrets: r.String()}
	if err := r.Close(); err != nil {
		return nil, core.E(core.Corrupt, "hook: %v", err)
	}
	return h, nil
}

func hookPrefix(namespace string) []byte {
	return wire.AppendString([]byte{prefixHTTP, 'h'}, namespace)
}

func hookKey(n core.Name) []byte { return append(hookPrefix(n.Namespace), n.Name...) }

// ReadHook finds a hook; nil when there is none.
func ReadHook(r index.Reader, n core.Name) (*Hook, error) {
	v, ok, err := r.Get(hookKey(n))
	if err != nil || !ok {
		return nil, err
	}
	return decodeHook(v)
}

// ReadHooks are up to limit hooks of a namespace, by name, after from.
func ReadHooks(r index.Reader, namespace, from string, limit int) (all []*Hook, err error) {
	prefix := hookPrefix(namespace)
	start := prefix
	if from != "" {
		start = append(append([]byte(nil), prefix...), from+"\x00"...)
	}
	var bad error
	err = r.Scan(start, after(prefix), func(_, v []byte) bool {
		var h *Hook
		if h, bad = decodeHook(v); bad == nil {
			all = append(all, h)
		}
		return bad == nil && len(all) < limit
	})
	if err == nil {
		err = bad
	}
	return all, err
}

// SetHook creates a hook, or replaces what is kept of it, if it still has the revision of
// whoever changes it (Conflict): 0 of one that is not there.
type SetHook struct {
	Name              core.Name
	Revision          uint64
	Settings, Secrets string
}

// Command encodes: name, revision uvarint, settings, secrets.
func (c *SetHook) Command() core.Command {
	b := wire.AppendUvarint(appendName(nil, c.Name), c.Revision)
	b = wire.AppendString(b, c.Settings)
	return core.Command{Code: CodeSetHook, Head: wire.AppendString(b, c.Secrets)}
}

func decodeSetHook(body []byte) (c SetHook, err error) {
	r := wire.NewReader(body)
	c = SetHook{readName(&r), r.Uvarint(), r.String(), r.String()}
	return c, r.Close()
}

func (s *State) setHook(tx txn, c *cursor, body []byte) core.Result {
	cmd, err := decodeSetHook(body)
	switch {
	case err != nil:
		return invalid("set hook", err)
	case cmd.Name.Name == "" || cmd.Name.Namespace == "":
		return refused(core.Invalid, "set hook: the name is empty")
	case len(cmd.Settings) > maxHook || len(cmd.Secrets) > maxHook:
		return refused(core.TooLarge, "set hook: settings and secrets have at most %d bytes each", maxHook)
	case s.routing.vhosts[cmd.Name.Namespace] == nil:
		return core.Result{Err: noNamespace(cmd.Name.Namespace)}
	}
	old, err := ReadHook(tx, cmd.Name)
	if err != nil {
		return s.storeResult(err)
	}
	h := Hook{cmd.Name, c.time, 1, cmd.Settings, cmd.Secrets}
	if old != nil {
		h.Created, h.Revision = old.Created, old.Revision+1
	}
	if h.Revision != cmd.Revision+1 {
		return refused(core.Conflict, "hook %s was changed meanwhile", cmd.Name)
	}
	tx.Set(hookKey(h.Name), h.encode())
	return core.Result{}
}

// DeleteHook deletes a hook.
type DeleteHook struct{ Name core.Name }

// Command encodes: name.
func (c *DeleteHook) Command() core.Command {
	return core.Command{Code: CodeDeleteHook, Head: appendName(nil, c.Name)}
}

func decodeDeleteHook(body []byte) (c DeleteHook, err error) {
	r := wire.NewReader(body)
	c.Name = readName(&r)
	return c, r.Close()
}

func (s *State) deleteHook(tx txn, body []byte) core.Result {
	cmd, err := decodeDeleteHook(body)
	if err != nil {
		return invalid("delete hook", err)
	}
	h, err := ReadHook(tx, cmd.Name)
	switch {
	case err != nil:
		return s.storeResult(err)
	case h == nil:
		return refused(core.NotFound, "hook %s does not exist", cmd.Name)
	}
	tx.Delete(hookKey(cmd.Name))
	return core.Result{}
}

// sweepHooksOf removes hooks of a namespace, up to limit.
func (s *State) sweepHooksOf(tx txn, namespace string, limit int) (int, error) {
	hooks, err := ReadHooks(tx, namespace, "", max(limit, 1))
	for _, h := range hooks {
		tx.Delete(hookKey(h.Name))
	}
	return len(hooks), err
}
