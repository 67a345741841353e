package config

import (
	"encoding"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// EnvPrefix begins the name of every environment variable of ours.
const EnvPrefix = "POLYLOG_"

// levels are the names of slog's levels, which lie four apart.
var levels = []string{"debug", "info", "warn", "error"}

// setting is one field of a Config, as its tags describe it:
//
//	key      its name
//	default  its value when nobody sets it
//	doc      what it does, in sentences
//	section  heading in the reference, on the first field below it
//	kind     address ("off" or host:port), advertise (host:port) or name; the last two
//	         may be empty
//	oneof    the values that it may have
//	min, max its least and greatest value
type setting struct {
	key, def, doc, section, kind, min, max string
	oneOf                                  []string
	field                                  reflect.Value
}

// settings are the fields of c in the order of the struct.
func (c *Config) settings() []setting {
	v := reflect.ValueOf(c).Elem()
	var all []setting
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		s := setting{
			key: tag.Get("key"), def: tag.Get("default"), doc: tag.Get("doc"), section: tag.Get("section"),
			kind: tag.Get("kind"), min: tag.Get("min"), max: tag.Get("max"), field: v.Field(i),
		}
		if o := tag.Get("oneof"); o != "" {
			s.oneOf = strings.Split(o, ",")
		}
		all = append(all, s)
	}
	return all
}

// find is the setting called key.
func (c *Config) find(key string) (setting, bool) {
	all := c.settings()
	i := slices.IndexFunc(all, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return all[i], true
}

// env is the name of the setting's environment variable.
func (s setting) env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.key, "-", "_"))
}

// set parses text into the field.
func (s setting) set(text string) error {
	v, err := s.parse(text)
	if err != nil {
		return err
	}
	if s.min != "" && v.Int() < s.bound(s.min) {
		return fmt.Errorf("%q is less than %s", text, s.min)
	}
	if s.max != "" && v.Int() > s.bound(s.max) {
		return fmt.Errorf("%q is more than %s", text, s.max)
	}
	s.field.Set(v)
	return nil
}

// bound is the number that min or max stands for.
func (s setting) bound(text string) int64 {
	v, err := s.parse(text)
	if err != nil {
		panic(fmt.Sprintf("bound of %s: %v", s.key, err))
	}
	return v.Int()
}

func (s setting) parse(text string) (reflect.Value, error) {
	v := reflect.New(s.field.Type()).Elem()
	v.Set(s.field) // for a value that adds to what is there
	if _, ok := reflect.TypeAssert[slog.Level](v); ok {
		i := slices.Index(levels, text)
		if i < 0 {
			return v, fmt.Errorf("%q is none of %s", text, strings.Join(levels, ", "))
		}
		v.SetInt(int64(slog.LevelDebug) + 4*int64(i))
		return v, nil
	}
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return v, u.UnmarshalText([]byte(text))
	}
	if _, ok := reflect.TypeAssert[time.Duration](v); ok {
		d, err := time.ParseDuration(text)
		if err != nil {
			return v, fmt.Errorf("%q is not a duration such as 500ms, 30s or 5m", text)
		}
		v.SetInt(int64(d))
		return v, nil
	}
	switch v.Kind() {
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return v, fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(n)
	case reflect.String:
		if err := s.checkText(text); err != nil {
			return v, err
		}
		v.SetString(text)
	default:
		panic("setting " + s.key + ": no parser for " + v.Type().String())
	}
	return v, nil
}

func (s setting) checkText(text string) error {
	if len(s.oneOf) > 0 && !slices.Contains(s.oneOf, text) {
		return fmt.Errorf("%q is none of %s", text, strings.Join(s.oneOf, ", "))
	}
	if s.kind == "" || s.kind == "address" && text == Off || s.kind != "address" && text == "" {
		return nil
	}
	if s.kind == "name" {
		return checkName(text)
	}
	return checkAddress(text, s.kind == "advertise")
}

// checkName is nil for what can name a node: up to 64 letters, digits, dots, dashes and
// underlines, beginning with a letter or digit. What is a number must be a Kafka broker id.
func checkName(text string) error {
	if !names.MatchString(text) {
		return fmt.Errorf("%q is not a name of up to 64 letters, digits, '.', '_' and '-' that begins with a letter or digit", text)
	}
	if !digits.MatchString(text) {
		return nil
	}
	if n, err := strconv.ParseUint(text, 10, 31); err != nil || strconv.FormatUint(n, 10) != text {
		return fmt.Errorf("%q is a number, but not a whole one from 0 to 2147483647 without leading zeros", text)
	}
	return nil
}

var (
	names  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	digits = regexp.MustCompile(`^[0-9]+$`)
)

// checkAddress is nil for host:port. An address to connect to needs both, and neither
// may stand for any.
func checkAddress(text string, connect bool) error {
	host, port, err := net.SplitHostPort(text)
	n, perr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not host:port", text)
	case perr != nil:
		return fmt.Errorf("%q has a port that is not from 0 to 65535", text)
	case connect && (host == "" || n == 0):
		return fmt.Errorf("%q must name a host and a port", text)
	case connect && net.ParseIP(host) != nil && net.ParseIP(host).IsUnspecified():
		return fmt.Errorf("nobody can connect to %q: it stands for all addresses of a machine", text)
	}
	return nil
}

// text is the field's value as set would take it.
func (s setting) text() string {
	if l, ok := reflect.TypeAssert[slog.Level](s.field); ok {
		return strings.ToLower(l.String())
	}
	return fmt.Sprint(s.field.Interface())
}

// isPairs says whether the setting has names of its own below it.
func (s setting) isPairs() bool { return s.field.Kind() == reflect.Map }
