package router

import (
	"context"

	"polylog/core"
	"polylog/router/state"
)

// Hook is an address that takes other people's webhooks. What its settings and secrets mean is
// the protocol's affair.
type Hook = state.Hook

// ChangeHook sets what a hook is to be, by what it is: change gets the hook, whose revision is 0
// where it is not there, and changes its settings and secrets. It is called again when the hook
// was changed meanwhile. Error kinds: change's own, Invalid, Denied, NotFound (no such
// namespace), TooLarge.
func (r *Router) ChangeHook(ctx context.Context, p Principal, n core.Name, change func(*Hook) error) (h *Hook, err error) {
	if err := r.auth.Authorize(p, OpCreate, namedGroup(n)); err != nil {
		return nil, err
	}
	if err := checkName("hook", n.Name); err != nil {
		return nil, err
	}
	for {
		h, err = r.Hook(ctx, n)
		switch core.KindOf(err) {
		case core.OK:
		case core.NotFound:
			h = &Hook{Name: n, Created: r.now()}
		default:
			return nil, err
		}
		if err = change(h); err != nil {
			return nil, err
		}
		cmd := state.SetHook{Name: n, Revision: h.Revision, Settings: h.Settings, Secrets: h.Secrets}
		if _, err = r.propose(ctx, cmd.Command()); core.KindOf(err) != core.Conflict {
			h.Revision++
			return h, err
		}
		if err = r.Sync(ctx); err != nil { // this node may not know the change yet
			return nil, err
		}
	}
}

// Hook finds a hook. One that this node does not know it asks the leader for.
func (r *Router) Hook(ctx context.Context, n core.Name) (*Hook, error) {
	h, err := state.ReadHook(r.state.Store(), n)
	if err != nil || h != nil {
		return h, err
	}
	if err := r.Sync(ctx); err != nil {
		return nil, err
	}
	if h, err = state.ReadHook(r.state.Store(), n); err == nil && h == nil {
		err = core.E(core.NotFound, "hook %s does not exist", n)
	}
	return h, err
}

// Hooks are up to limit of a namespace, by name, after from.
func (r *Router) Hooks(namespace, from string, limit int) ([]*Hook, error) {
	return state.ReadHooks(r.state.Store(), namespace, from, limit)
}

// DeleteHook deletes a hook. Error kinds: NotFound, Denied.
func (r *Router) DeleteHook(ctx context.Context, p Principal, n core.Name) error {
	if err := r.auth.Authorize(p, OpDelete, namedGroup(n)); err != nil {
		return err
	}
	cmd := state.DeleteHook{Name: n}
	_, err := r.propose(ctx, cmd.Command())
	return err
}
