package router

import (
	"context"

	"polylog/core"
	"polylog/core/message"
	"polylog/router/state"
)

// Exchange sends what is published to it to the destinations of its bindings.
type Exchange = state.Exchange

// ExchangeConfig is what an exchange's creator decides, for ever.
type ExchangeConfig = state.ExchangeConfig

// Binding leads from an exchange to a queue, a topic or another exchange.
type Binding = state.Binding

// BindingQuery says which bindings are looked for.
type BindingQuery = state.BindingQuery

// MissingError says what a request names and there is none of. It is of kind NotFound.
type MissingError struct{ Resource }

// Error is the kind of thing and its name.
func (e *MissingError) Error() string {
	switch e.Kind {
	case ResourceExchange:
		return "exchange " + e.Name.String() + " does not exist"
	case ResourceNamespace:
		return "namespace " + e.Name.Name + " does not exist"
	default:
		return "queue " + e.Name.String() + " does not exist"
	}
}

// Unwrap gives it its kind.
func (e *MissingError) Unwrap() error { return core.NotFound }

func exchangeResource(n core.Name) Resource { return Resource{Kind: ResourceExchange, Name: n} }

func missingExchange(n core.Name) error { return &MissingError{exchangeResource(n)} }

// DeclareExchange creates an exchange, or finds the one of that name, a predeclared one and a
// topic's included: created is false then, and its configuration may be another one.
// Who names an alternate exchange for a new one needs to read from this one and write to that. Error
// kinds: Invalid (the name, the type or an argument), Denied (also for names that begin with
// "amq."), NotFound (the namespace).
func (r *Router) DeclareExchange(ctx context.Context, p Principal, n core.Name, c ExchangeConfig) (x *Exchange, created bool, err error) {
	if err := r.auth.Authorize(p, OpCreate, exchangeResource(n)); err != nil {
		return nil, false, err
	}
	if err := r.authorizeAlternate(p, n, &c); err != nil {
		if x, found := r.Exchange(n); found == nil {
			return x, false, nil // nothing is changed
		}
		return nil, false, err
	}
	if n.Name != "" {
		if err := checkName("exchange", n.Name); err != nil {
			return nil, false, err
		}
	}
	cmd := state.DeclareExchange{Name: n, Config: c}
	res, err := r.propose(ctx, cmd.Command())
	if err != nil {
		return nil, false, err
	}
	return state.DecodeDeclaredExchange(n, res.Body)
}

// authorizeAlternate checks that p may have what an exchange has no destination for go where its
// configuration says.
func (r *Router) authorizeAlternate(p Principal, n core.Name, c *ExchangeConfig) error {
	v, ok := c.Arguments.Get(state.ArgAlternate)
	if !ok || v.Kind() != message.KindString {
		return nil
	}
	if err := r.auth.Authorize(p, OpRead, exchangeResource(n)); err != nil {
		return err
	}
	return r.auth.Authorize(p, OpWrite, exchangeResource(core.Name{Namespace: n.Namespace, Name: v.Str()}))
}

// DeleteExchange deletes an exchange with its bindings. Error kinds: NotFound, Denied (also
// for predeclared ones and those of topics), Conflict (it has bindings, and ifUnused).
func (r *Router) DeleteExchange(ctx context.Context, p Principal, n core.Name, ifUnused bool) error {
	if err := r.auth.Authorize(p, OpDelete, exchangeResource(n)); err != nil {
		return err
	}
	cmd := state.DeleteExchange{Name: n, IfUnused: ifUnused}
	_, err := r.propose(ctx, cmd.Command())
	return err
}

// Exchange finds an exchange: one that was declared, one of the predeclared ones, which are in
// every namespace, or that of a topic. The error is of kind NotFound when there is none.
func (r *Router) Exchange(n core.Name) (*Exchange, error) {
	x, err := r.state.Exchange(n)
	if err == nil && x == nil {
		err = missingExchange(n)
	}
	return x, err
}

// Exchanges are up to limit exchanges of a namespace, those after from, by name, without the
// default one.
func (r *Router) Exchanges(namespace, from string, limit int) ([]*Exchange, error) {
	return r.state.Exchanges(namespace, from, limit)
}

// Bind creates a binding, which is nothing new where it is there already. Messages that are
// published after it in the log follow it. The destination of one that is not ToExchange is
// a queue, or a topic where no queue has the name. Error kinds: NotFound (a MissingError),
// Denied (also for the default exchange), Invalid (the type does not take the key or the
// arguments), TooLarge, Limit.
func (r *Router) Bind(ctx context.Context, p Principal, b Binding) error {
	cmd := state.Bind{Binding: b}
	return r.changeBinding(ctx, p, &b, cmd.Command())
}

// Unbind removes a binding. It is no error where there is none, nor what it leads from or to.
// Error kinds: Denied, Invalid.
func (r *Router) Unbind(ctx context.Context, p Principal, b Binding) error {
	cmd := state.Unbind{Binding: b}
	return r.changeBinding(ctx, p, &b, cmd.Command())
}

func (r *Router) changeBinding(ctx context.Context, p Principal, b *Binding, cmd core.Command) error {
	to := queueResource(b.Destination)
	if b.ToExchange {
		to.Kind = ResourceExchange
	}
	if err := r.auth.Authorize(p, OpWrite, to); err != nil {
		return err
	}
	if err := r.auth.Authorize(p, OpRead, exchangeResource(b.Source)); err != nil {
		return err
	}
	_, err := r.propose(ctx, cmd)
	if core.KindOf(err) == core.NotFound {
		if x, err := r.state.Exchange(b.Source); err == nil && x == nil {
			return missingExchange(b.Source)
		}
		return &MissingError{to}
	}
	return err
}

// BindingsOf are bindings, in no order that means anything; without those by which the default
// exchange sends to every queue. Error kinds: NotFound, Invalid (the query names neither end).
func (r *Router) BindingsOf(q BindingQuery) ([]Binding, error) { return r.state.Bindings(q) }
