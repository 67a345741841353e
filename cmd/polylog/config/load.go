package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"
)

// fileKey names the configuration file: a flag and a variable, never a key in the
// file itself.
const fileKey = "config"

// ClientEnv holds the broker's address for the verbs that are clients. It is no
// setting of a broker and may stand beside those that are.
const ClientEnv = EnvPrefix + "BROKER"

// NodeEnv is the same for the verbs that speak to nodes by their node-to-node listener.
const NodeEnv = EnvPrefix + "NODE"

// ServerEnv is the same for the verbs that speak to the HTTP interface.
const ServerEnv = EnvPrefix + "SERVER"

// UserEnv and PasswordFileEnv are whom the verbs that are clients log in as.
const (
	UserEnv         = EnvPrefix + "USER"
	PasswordFileEnv = EnvPrefix + "PASSWORD_FILE"
)

// fromKubernetes matches the variables that Kubernetes gives every container near a
// service that is called polylog: they look like ours and are not.
var fromKubernetes = regexp.MustCompile(`^POLYLOG_(.*_)?(SERVICE_(HOST|PORT)(_.*)?|PORT(_.*)?)$`)

// AddFlags declares the flag of every setting, and --config.
func AddFlags(fs *pflag.FlagSet) {
	fs.String(fileKey, "", "YAML file with settings (environment: "+EnvPrefix+"CONFIG)")
	for _, s := range Default().settings() {
		if s.isPairs() {
			fs.StringArray(s.key, nil, s.usage()+" (name=value; may be repeated, or several separated by semicolons)")
			continue
		}
		fs.String(s.key, s.def, s.usage())
	}
}

// usage is the first sentence of the doc, for --help.
func (s setting) usage() string {
	first, _, _ := strings.Cut(s.doc, ". ")
	if len(s.oneOf) > 0 {
		first = strings.Join(s.oneOf, ", ") + ": " + first
	}
	return strings.TrimSuffix(first, ".")
}

// Load is the configuration from flags, environ (as os.Environ gives it) and the
// file that they name.
func Load(flags *pflag.FlagSet, environ []string) (*Config, error) {
	c := Default()
	env, err := ourVariables(c, environ)
	if err != nil {
		return nil, err
	}
	path := env[fileKey]
	if f := flags.Lookup(fileKey); f != nil && f.Changed {
		path = f.Value.String()
	}
	if path != "" {
		if err := c.loadFile(path); err != nil {
			return nil, err
		}
	}
	for _, s := range c.settings() {
		if text, ok := env[s.key]; ok {
			if err := s.set(text); err != nil {
				return nil, fmt.Errorf("%s: %w", s.env(), err)
			}
		}
		if f := flags.Lookup(s.key); f != nil && f.Changed {
			texts := []string{f.Value.String()}
			if a, ok := f.Value.(pflag.SliceValue); ok {
				texts = a.GetSlice()
			}
			for _, text := range texts {
				if err := s.set(text); err != nil {
					return nil, fmt.Errorf("--%s: %w", s.key, err)
				}
			}
		}
	}
	return c, c.Validate()
}

// ourVariables are the values in environ by setting.
func ourVariables(c *Config, environ []string) (map[string]string, error) {
	keys := map[string]string{EnvPrefix + "CONFIG": fileKey}
	for _, s := range c.settings() {
		keys[s.env()] = s.key
	}
	found := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, EnvPrefix) || name == ClientEnv || name == NodeEnv || name == ServerEnv || name == UserEnv || name == PasswordFileEnv || fromKubernetes.MatchString(name) {
			continue
		}
		key, ok := keys[name]
		if !ok {
			return nil, fmt.Errorf("environment: no setting is called %s%s", name, suggest(name, slices.Sorted(maps.Keys(keys))))
		}
		found[key] = value
	}
	return found, nil
}

// loadFile sets what the YAML file at path says: one mapping of keys to single values.
func (c *Config) loadFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := c.loadYAML(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (c *Config) loadYAML(text []byte) error {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return syntaxError(err)
	}
	if len(file.Docs) > 1 {
		return errors.New("more than one YAML document")
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		pairs, ok := doc.Body.(ast.MapNode)
		if !ok {
			return fmt.Errorf("line %d: want lines of the form key: value", doc.Body.GetToken().Position.Line)
		}
		for it := pairs.MapRange(); it.Next(); {
			if err := c.setPair(it.KeyValue()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Config) setPair(pair *ast.MappingValueNode) error {
	token := pair.Key.GetToken()
	line := token.Position.Line
	s, ok := c.find(token.Value)
	if !ok {
		var keys []string
		for _, s := range c.settings() {
			keys = append(keys, s.key)
		}
		return fmt.Errorf("line %d: no setting is called %s%s", line, token.Value, suggest(token.Value, keys))
	}
	if s.isPairs() {
		return setMapping(s, pair)
	}
	text, err := scalar(pair.Value)
	if err == nil {
		err = s.set(text)
	}
	if err != nil {
		return fmt.Errorf("line %d: %s: %w", line, s.key, err)
	}
	return nil
}

// setMapping sets the names below a key.
func setMapping(s setting, pair *ast.MappingValueNode) error {
	inner, ok := pair.Value.(ast.MapNode)
	if !ok {
		return fmt.Errorf("line %d: %s: want names and values below it", pair.Key.GetToken().Position.Line, s.key)
	}
	for it := inner.MapRange(); it.Next(); {
		name := it.Key().GetToken()
		text, err := scalar(it.Value())
		if err == nil {
			err = checkPair(name.Value, text)
		}
		if err != nil {
			return fmt.Errorf("line %d: %s: %s: %w", name.Position.Line, s.key, name.Value, err)
		}
		pairs, _ := reflect.TypeAssert[Pairs](s.field)
		s.field.Set(reflect.ValueOf(pairs.with(name.Value, text)))
	}
	return nil
}

// scalar is the text of a single value as it stands in the file; null is empty.
func scalar(n ast.Node) (string, error) {
	v, ok := n.(ast.ScalarNode)
	switch {
	case !ok:
		return "", errors.New("want a single value")
	case v.Type() == ast.NullType:
		return "", nil
	}
	return v.GetToken().Value, nil
}

// syntaxError is the parser's complaint in one line, without its picture of the source.
func syntaxError(err error) error {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil {
		return err
	}
	return fmt.Errorf("line %d: %s", y.GetToken().Position.Line, y.GetMessage())
}

// suggest is a hint at the name that word was probably meant to be.
func suggest(word string, names []string) string {
	best, least := "", len(word)/3+1
	for _, n := range names {
		if d := distance(word, n); d <= least {
			best, least = n, d-1
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// distance is the number of letters to add, drop or replace between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
