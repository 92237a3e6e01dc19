package config

import (
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Load reads the file over the defaults, and then the environment, asked for
// by lookup (nil: none), over that. It reports every unknown key, wrong type
// and bad value at once, each with its name. An empty path reads no file.
func Load(path string, lookup func(string) (string, bool)) (Config, error) {
	c, err := Parse(path, lookup)
	return c, errors.Join(err, c.Validate())
}

// Parse is [Load] without judging the values, for a caller that has flags to
// lay over them before it calls [Config.Validate].
func Parse(path string, lookup func(string) (string, bool)) (Config, error) {
	c := Default()
	var problems []error
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return c, fmt.Errorf("read configuration: %w", err)
		}
		problems = append(problems, c.decode(string(text), path))
	}
	if lookup != nil {
		problems = append(problems, c.override(lookup))
	}
	return c, errors.Join(problems...)
}

// decode lays TOML text over c. The values are walked by hand, because a TOML
// decoder stops at the first one of a wrong type.
func (c *Config) decode(text, path string) error {
	tree := map[string]any{}
	if _, err := toml.Decode(text, &tree); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return walk("", tree, reflect.ValueOf(c).Elem())
}

func walk(prefix string, tree map[string]any, into reflect.Value) error {
	var problems []error
	for _, key := range sortedKeys(tree) {
		name, field := join(prefix, key), fieldOf(into, key)
		table, isTable := tree[key].(map[string]any)
		switch {
		case !field.IsValid():
			problems = append(problems, fmt.Errorf("%s: unknown key", name))
		case isSection(field) && isTable:
			problems = append(problems, walk(name, table, field))
		case isSection(field):
			problems = append(problems, fmt.Errorf("%s: want a section, [%s]", name, name))
		default:
			if err := set(field, tree[key]); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	return errors.Join(problems...)
}

// set stores a TOML value in a field.
func set(field reflect.Value, value any) error {
	if s, ok := value.(string); ok && field.Kind() != reflect.Slice {
		if field.Kind() == reflect.String {
			field.SetString(s)
			return nil
		}
		if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
			return u.UnmarshalText([]byte(s))
		}
	}
	switch v := value.(type) {
	case bool:
		if field.Kind() == reflect.Bool {
			field.SetBool(v)
			return nil
		}
	case int64:
		return setInt(field, v)
	case float64:
		if field.Kind() == reflect.Float64 {
			field.SetFloat(v)
			return nil
		}
	case []any:
		return setList(field, v)
	}
	return wrongType(field)
}

func setInt(field reflect.Value, v int64) error {
	switch field.Interface().(type) {
	case int:
		if int64(int(v)) == v {
			field.SetInt(v)
			return nil
		}
	case Size:
		if v >= 0 {
			field.SetInt(v)
			return nil
		}
	case float64:
		field.SetFloat(float64(v))
		return nil
	}
	return wrongType(field)
}

func setList(field reflect.Value, list []any) error {
	out := make([]string, 0, len(list))
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			return wrongType(field)
		}
		out = append(out, s)
	}
	if field.Kind() != reflect.Slice {
		return wrongType(field)
	}
	field.Set(reflect.ValueOf(out))
	return nil
}

func wrongType(field reflect.Value) error {
	var want string
	switch field.Interface().(type) {
	case bool:
		want = "true or false"
	case int:
		want = "an integer"
	case float64:
		want = "a number"
	case []string:
		want = "a list of strings"
	case Size:
		want = "a size such as \"64MiB\""
	case Duration:
		want = "a duration such as \"12h\" or \"365d\""
	default:
		want = "a string"
	}
	return errors.New("want " + want)
}

// override lays the environment over c: [security.federation] enabled is
// HEARTH_SECURITY_FEDERATION_ENABLED, and lists are separated by commas.
func (c *Config) override(lookup func(string) (string, bool)) error {
	var problems []error
	c.each(func(name string, field reflect.Value) {
		env := EnvName(name)
		if text, ok := lookup(env); ok {
			if err := setText(field, text); err != nil {
				problems = append(problems, fmt.Errorf("%s (%s): %w", env, name, err))
			}
		}
	})
	return errors.Join(problems...)
}

// EnvName is the environment variable that overrides a key such as "server.name".
func EnvName(key string) string {
	return "HEARTH_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Set overrides one key, such as "server.name", with text as the environment would.
func (c *Config) Set(key, text string) error {
	err := fmt.Errorf("%s: unknown key", key)
	c.each(func(name string, field reflect.Value) {
		if name == key {
			if err = setText(field, text); err != nil {
				err = fmt.Errorf("%s: %w", key, err)
			}
		}
	})
	return err
}

// Keys lists every key: "server.name", "server.data_dir" and so on.
func Keys() []string {
	var keys []string
	c := Default()
	c.each(func(name string, _ reflect.Value) { keys = append(keys, name) })
	return keys
}

func setText(field reflect.Value, text string) error {
	switch field.Interface().(type) {
	case bool:
		if b, err := strconv.ParseBool(text); err == nil {
			return set(field, b)
		}
	case int:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return set(field, n)
		}
	case float64:
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return set(field, f)
		}
	case []string:
		items := []any{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return set(field, items)
	default:
		return set(field, text)
	}
	return wrongType(field)
}

// each visits every key, sections flattened.
func (c *Config) each(visit func(name string, field reflect.Value)) {
	var down func(prefix string, v reflect.Value)
	down = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name := join(prefix, v.Type().Field(i).Tag.Get("toml"))
			if isSection(v.Field(i)) {
				down(name, v.Field(i))
			} else {
				visit(name, v.Field(i))
			}
		}
	}
	down("", reflect.ValueOf(c).Elem())
}

func isSection(v reflect.Value) bool { return v.Kind() == reflect.Struct }

func fieldOf(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("toml") == key {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
