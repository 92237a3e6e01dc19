package matrix

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestCanonicalJSON(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"white space", " [ 1 ,\t2\r\n] ", `[1,2]`},
		{"empty", " [ { } , [ ] ] ", `[{},[]]`},
		{"escapes become text", `"\u00e9\/\u0041\ud83d\ude00"`, `"é/A😀"`},
		{"short escapes", `"\u0008\u0009\u000a\u000c\u000d\u0022\u005c"`, `"\b\t\n\f\r\"\\"`},
		{"control characters", `"\u0000\u001F\u007f"`, `"\u0000\u001f` + "\x7f\""},
		{"sorted by code point, not UTF-16", `{"\uffff":1,"😀":2,"a":3}`, "{\"a\":3,\"\uffff\":1,\"😀\":2}"},
		{"sorted by the text behind escapes", `{"\\":1,"\"":2,"\u0001":3,"A":4,"z":5}`, `{"\u0001":3,"\"":2,"A":4,"\\":1,"z":5}`},
		{"prefix sorts first", `{"aa":1,"a":2,"":3,"a!":4}`, `{"":3,"a":2,"a!":4,"aa":1}`},
		{"nested objects sorted", `{"b":{"z":{"2":1,"1":2},"y":[{"d":1,"c":2}]},"a":0}`, `{"a":0,"b":{"y":[{"c":2,"d":1}],"z":{"1":2,"2":1}}}`},
		{"big integers as they are", `[9007199254740992,123456789012345678901234567890]`, `[9007199254740992,123456789012345678901234567890]`},
		{"floats", `[50.0,50.57,-0.0,1.50,0.00001,1e-7,1.5e300,123456789012345680.0]`, `[50.0,50.57,-0.0,1.5,1e-05,1e-07,1.5e+300,1.2345678901234568e+17]`},
		{"integral exponents", `[1e2,12e-0,9007199254740991e0,1e16,-5E3]`, `[100,12,9007199254740991,1e+16,-5000]`},
		{"literals", `[true,false,null]`, `[true,false,null]`},
		{"deepest nesting", strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat("[", 1000) + strings.Repeat("]", 1000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := CanonicalJSON([]byte(c.in))
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

// refusedJSON are inputs that no mode of the canonical encoder takes.
var refusedJSON = []string{
	"", " ", "{", "[", `"`, `"\`, `"\u12`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `[1`, `[1,`, "tru", "nul", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+",
	`{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a" 1}`, `{a:1}`, `{1:1}`, `[1 2]`, `1 2`, `{} x`, `{"a":1}}`, "NaN", "Infinity", "-Infinity", "'a'", "undefined",
	`{"a":1,"a":2}`, `{"a":1,"b":2,"a":3}`, `{"a":1,"\u0061":2}`, `{"b":1,"\n":2,"\u000a":3}`,
	"\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"a\\n\xff\"", `"\ud800"`, `"\udc00"`, `"\ud800\u0041"`, `"\ud800\ud800"`, `"\ud800x"`, `"\x41"`, `"\u00g0"`,
	"\"\x00\"", "\"\n\"", "\"a\\n\x1f\"", "\ufeff{}", "\xa0{}", "1e999", "[1e400]", "/*x*/1",
	strings.Repeat("[", 1001) + strings.Repeat("]", 1001), strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001), strings.Repeat("[", 1<<20),
}

func TestCanonicalJSONRefuses(t *testing.T) {
	for _, in := range refusedJSON {
		for _, strict := range []bool{false, true} {
			if got, err := AppendCanonicalJSON(nil, []byte(in), strict); err == nil {
				t.Errorf("strict=%v: %q became %q", strict, clip(in), got)
			}
		}
	}
}

func TestStrictCanonicalJSON(t *testing.T) {
	for in, ok := range map[string]bool{
		"9007199254740991": true, "-9007199254740991": true, "9007199254740992": false, "-9007199254740992": false,
		"99999999999999999": false, "123456789012345678901": false, "0": true, "-0": false, "-1": true,
		"1.0": false, "1e2": false, "0.5": false, "1E0": false, "999999999999999": true,
	} {
		if _, err := StrictCanonicalJSON([]byte(`{"a":[` + in + `]}`)); (err == nil) != ok {
			t.Errorf("%s: got error %v", in, err)
		}
	}
}

// jsonText draws JSON text with white space, escapes and unsorted keys.
func jsonText(depth int) *rapid.Generator[string] {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 5
		if depth == 0 {
			kinds = 3
		}
		pad := space.Draw(t, "space")
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return pad + strconv.FormatInt(rapid.Int64Range(-MaxSafeInt, MaxSafeInt).Draw(t, "number"), 10)
		case 1:
			return pad + jsonString(t)
		case 2:
			return pad + rapid.SampledFrom([]string{"true", "false", "null", "{}", "[ ]"}).Draw(t, "literal")
		case 3:
			return pad + "[" + strings.Join(rapid.SliceOfN(jsonText(depth-1), 0, 4).Draw(t, "array"), ",") + "]"
		}
		keys := rapid.SliceOfNDistinct(rapid.String(), 0, 5, rapid.ID[string]).Draw(t, "keys")
		var members []string
		for _, key := range keys {
			members = append(members, escapeSome(t, key)+pad+":"+jsonText(depth-1).Draw(t, "value"))
		}
		return "{" + strings.Join(members, pad+",") + pad + "}"
	})
}

func jsonString(t *rapid.T) string { return escapeSome(t, rapid.String().Draw(t, "string")) }

// escapeSome writes a JSON string with more escapes than it needs.
func escapeSome(t *rapid.T, s string) string {
	const digits = "0123456789abcdef"
	b := []byte{'"'}
	all := rapid.Bool().Draw(t, "escape")
	for _, r := range s {
		if r < 0x20 || r == '"' || r == '\\' || all && r < 0x10000 {
			b = append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}

// TestCanonicalProperties: the canonical form means what the text meant, is a
// fixed point, and agrees between the two modes. The JSON library, which sorts
// otherwise, is the judge of meaning.
func TestCanonicalProperties(t *testing.T) {
	check(t, func(t *rapid.T) {
		in := jsonText(3).Draw(t, "json")
		out, err := CanonicalJSON([]byte(in))
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		again, err := StrictCanonicalJSON(out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("%q became %q, then %q, %v", in, out, again, err)
		}
		var want, got any
		if err := json.Unmarshal([]byte(in), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		if w, g := reference(want), reference(got); w != g || w != string(out) {
			t.Fatalf("%q:\ngot  %q\nwant %q", in, out, w)
		}
	})
}

// Keys that need escapes are sorted without an allocation for each comparison,
// so that an event full of them costs about what any other does.
func TestCanonicalJSONEscapedKeys(t *testing.T) {
	count := func(keys int) float64 {
		in := []byte{'{'}
		for i := keys; i > 0; i-- {
			in = fmt.Appendf(in, `"\"\u0001\n%06d":%d,`, i, i)
		}
		in = append(in, `"\"":0}`...)
		out := make([]byte, 0, len(in))
		if got, err := AppendCanonicalJSON(out, in, true); err != nil || !bytes.HasPrefix(got, []byte(`{"\"":0,"\"\u0001\n000001":1,`)) {
			t.Fatalf("got %.60s, %v", got, err)
		}
		return testing.AllocsPerRun(10, func() { _, _ = AppendCanonicalJSON(out, in, true) })
	}
	if few, many := count(10), count(1000); many > few+20 {
		t.Errorf("%v allocations with 10 keys, %v with 1,000", few, many)
	}
}
