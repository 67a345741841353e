package filter

import (
	"encoding/json"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"polylog/core"
	"polylog/core/message"
)

// Bounds of an expression.
const (
	// MaxExpression bounds its text, in bytes.
	MaxExpression = 4 << 10
	// MaxCost bounds one evaluation, in CEL's units: about one for each step, and one for ten
	// bytes that are compared.
	MaxCost = 100_000
	// maxJSON bounds the values that are read as JSON, in bytes.
	maxJSON = 1 << 20
)

// variables are what expressions can use; docs/http.md has the same list.
var variables = []cel.EnvOption{
	cel.Variable("key", cel.StringType),
	cel.Variable("tag", cel.StringType),
	cel.Variable("headers", cel.MapType(cel.StringType, cel.DynType)),
	cel.Variable("value", cel.StringType),
	cel.Variable("json", cel.DynType),
	cel.Variable("bytes", cel.IntType),
	cel.Variable("time", cel.TimestampType),
	cel.Variable("priority", cel.IntType),
	cel.Variable("contentType", cel.StringType),
	cel.Variable("type", cel.StringType),
	cel.Variable("messageId", cel.StringType),
	cel.Variable("correlationId", cel.StringType),
	cel.Variable("replyTo", cel.StringType),
	cel.Variable("appId", cel.StringType),
	cel.Variable("userId", cel.StringType),
	cel.Variable("routingKey", cel.StringType),
}

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(append([]cel.EnvOption{cel.ParserRecursionLimit(100), cel.ParserExpressionSizeLimit(MaxExpression)}, variables...)...)
})

// expression is a compiled one.
type expression struct{ program cel.Program }

func compileExpression(text string) (*expression, error) {
	if len(text) > MaxExpression {
		return nil, core.E(core.Invalid, "the filter's expression has %d bytes, at most %d are allowed", len(text), MaxExpression)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, core.E(core.Invalid, "the filter's expression: %v", err)
	}
	if ast.OutputType() != cel.BoolType && ast.OutputType() != cel.DynType {
		return nil, core.E(core.Invalid, "the filter's expression is a %s, want a bool", ast.OutputType())
	}
	program, err := env.Program(ast, cel.CostLimit(MaxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, core.E(core.Invalid, "the filter's expression: %v", err)
	}
	return &expression{program}, nil
}

func (e *expression) wants(r *core.Record) bool {
	out, _, err := e.program.Eval(&activation{record: r})
	return err == nil && out == ref.Val(types.True)
}

// activation has the variables of one message. What the expression does not ask for is not
// computed.
type activation struct {
	record  *core.Record
	message *message.Message
	known   map[string]variable // what was computed: an expression may ask for it in a loop
}

type variable struct {
	value any
	there bool
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() cel.Activation { return nil }

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	v, ok := a.known[name]
	if !ok {
		v.value, v.there = a.compute(name)
		if a.known == nil {
			a.known = map[string]variable{}
		}
		a.known[name] = v
	}
	return v.value, v.there
}

func (a *activation) compute(name string) (any, bool) {
	if a.message == nil {
		a.message = new(message.Read(a.record))
	}
	switch m := a.message; name {
	case "key":
		return string(m.Key), true
	case "tag":
		tag, _ := m.Headers.Get(TagHeader)
		return tag.Str(), true
	case "headers":
		all := make(map[string]any, len(m.Headers))
		for _, h := range m.Headers {
			if _, twice := all[h.Name]; !twice {
				all[h.Name] = valueOf(h.Value)
			}
		}
		return all, true
	case "value":
		return string(m.Value), true
	case "json":
		var v any
		if len(m.Value) > maxJSON || json.Unmarshal(m.Value, &v) != nil {
			return nil, false
		}
		return v, true
	case "bytes":
		return len(m.Value), true
	case "time":
		return time.UnixMilli(m.Time), true
	case "priority":
		return max(m.Priority, 0), true
	case "contentType":
		return m.ContentType, true
	case "type":
		return m.Type, true
	case "messageId":
		return m.MessageID, true
	case "correlationId":
		return string(m.CorrelationID), true
	case "replyTo":
		return m.ReplyTo, true
	case "appId":
		return m.AppID, true
	case "userId":
		return m.UserID, true
	case "routingKey":
		return m.RoutingKey, true
	}
	return nil, false
}

// valueOf is a header's value for CEL: numbers and truth values keep their types, the rest is
// text.
func valueOf(v message.Value) any {
	switch v.Kind() { //nolint:exhaustive // the others are text
	case message.KindBool:
		return v.Bool()
	case message.KindFloat32, message.KindFloat64:
		return v.Float()
	case message.KindUint64:
		return v.Uint()
	}
	if v.IsText() {
		return v.Str()
	}
	if n, ok := v.Int(); ok {
		return n
	}
	return v.String()
}

// cache has the expressions that were compiled last, for calls that come one after another.
type cache struct {
	mu  sync.Mutex
	all map[string]*expression // guarded by mu
}

var compiled cache

const maxCached = 1024

func (c *cache) get(text string) (*expression, error) {
	c.mu.Lock()
	e := c.all[text]
	c.mu.Unlock()
	if e != nil {
		return e, nil
	}
	e, err := compileExpression(text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxCached {
		c.all = make(map[string]*expression)
	}
	c.all[text] = e
	return e, nil
}
