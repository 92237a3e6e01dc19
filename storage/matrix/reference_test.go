package matrix

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// reference is a second, slow encoder of canonical JSON, written from the
// grammar in the Appendices, for values the JSON library decoded.
func reference(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		return referenceString(v)
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, reference(item))
		}
		return "[" + strings.Join(items, ",") + "]"
	case map[string]any:
		var keys []string
		for key := range v {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, func(a, b string) int { return slices.Compare([]rune(a), []rune(b)) })
		for i, key := range keys {
			keys[i] = referenceString(key) + ":" + reference(v[key])
		}
		return "{" + strings.Join(keys, ",") + "}"
	}
	panic(fmt.Sprintf("%T", v))
}

func referenceString(s string) string {
	var b strings.Builder
	for _, r := range s {
		short := strings.IndexRune("\b\t\n\f\r\"\\", r)
		switch {
		case short >= 0:
			b.WriteString(`\` + `btnfr"\`[short:short+1])
		case r < 0x20:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}
