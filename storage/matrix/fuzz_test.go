package matrix

import (
	"bytes"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FuzzCanonicalJSON holds the encoder against the JSON library, which decides
// what is JSON and what it means, and against the reference encoder.
func FuzzCanonicalJSON(f *testing.F) {
	for _, in := range refusedJSON {
		if len(in) < 100 {
			f.Add([]byte(in))
		}
	}
	for _, in := range []string{`{"b":[1,-0,1e10,1.5,{"a":"\u00e9\n"}],"a":null}`, `[9007199254740992,1e-7,true]`} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := CanonicalJSON(in)
		strict, strictErr := StrictCanonicalJSON(in)
		if err != nil {
			if strictErr == nil {
				t.Fatalf("only the strict mode takes %q", in)
			}
			if jsontext.Value(in).IsValid() && !ourLimit(err) {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		if !jsontext.Value(in).IsValid() {
			t.Fatalf("%q is no JSON and became %q", in, out)
		}
		if again, err := CanonicalJSON(out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q, then %q, %v", in, out, again, err)
		}
		if strictErr != nil {
			return
		}
		var v any
		if err := json.Unmarshal(in, &v); err != nil {
			t.Fatal(err)
		}
		if want := reference(v); string(out) != want || string(strict) != want {
			t.Fatalf("%q: got %q and %q, want %q", in, out, strict, want)
		}
	})
}

// ourLimit tells whether valid JSON was refused for a bound of ours.
func ourLimit(err error) bool {
	for _, limit := range []string{errJSONDepth.Error(), "number out of range"} {
		if bytes.Contains([]byte(err.Error()), []byte(limit)) {
			return true
		}
	}
	return false
}

// FuzzParseEvent parses as a room version that a byte picks. What parses must
// give itself again, keep its ID when redacted, and let every accessor work.
func FuzzParseEvent(f *testing.F) {
	for i := range versions {
		v := &versions[i]
		event := sample(v)
		f.Add(uint8(i), marshal(f, event))
		event["content"], event["type"] = fullContent(), TypeMember
		f.Add(uint8(i), marshal(f, event))
		delete(event, "room_id")
		event["type"] = TypeCreate
		f.Add(uint8(i), marshal(f, event))
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		v := &versions[int(which)%len(versions)]
		e, err := ParseEvent(v, raw)
		if err != nil {
			if codeOf(err) != BadJSON && codeOf(err) != TooLarge {
				t.Fatal(err)
			}
			return
		}
		if len(e.JSON()) > MaxEventSize || len(e.ID()) > MaxIDLength || e.ID() == "" || e.RoomID() == "" {
			t.Fatalf("limits: %q", raw)
		}
		again, err := ParseEvent(v, e.JSON())
		if err != nil || again.ID() != e.ID() || !bytes.Equal(again.JSON(), e.JSON()) || again.HashOK() != e.HashOK() {
			t.Fatalf("%q again: %v", raw, err)
		}
		redacted, err := Redact(v, raw)
		if err != nil || !bytes.Equal(redacted, e.Redacted().JSON()) {
			t.Fatalf("%q redacted: %q, %v", raw, redacted, err)
		}
		if r, err := ParseEvent(v, redacted); err != nil || r.ID() != e.ID() {
			t.Fatalf("%q redacted: %v", raw, err)
		}
		_, _ = e.PowerLevels()
		_, _, _ = e.Create(), e.Member(), e.JoinRules()
		_ = VerifyThirdPartyInvite(e, e)
		_ = ParseServerACL(e.Content()).Allows("b.org")
		for _, server := range RequiredSignatures(e) {
			if _, err := ParseServerName(string(server)); err != nil {
				t.Fatalf("%q needs a signature of %q", raw, server)
			}
		}
	})
}

// The grammars of the Appendices as regular expressions, for the fuzz targets.
const (
	serverGrammar = `([0-9A-Za-z.-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?`
	localGrammar  = `[^:\x00]*`
)

// fuzzGrammar: what parses matches the grammar and is valid UTF-8 within the
// limit; what matches parses, but for IP addresses, whose numbers no grammar checks.
func fuzzGrammar[T ~string](f *testing.F, parse func(string) (T, error), grammar string, limit int, good, bad []string) {
	for _, s := range append(good, bad...) {
		f.Add(s)
	}
	re := regexp.MustCompile(`\A(?:` + grammar + `)\z`)
	address := regexp.MustCompile(`\[|\A(.*:)?\d+\.\d+\.\d+\.\d+(:\d+)?\z`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parse(s)
		want := utf8.ValidString(s) && len(s) <= limit && re.MatchString(s)
		if err == nil && (!want || string(got) != s) {
			t.Fatalf("%q became %q", s, got)
		}
		if err != nil && want && !address.MatchString(s) {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

func FuzzServerName(f *testing.F) {
	fuzzGrammar(f, ParseServerName, serverGrammar, maxServerName, goodServers, badServers)
}

func FuzzUserID(f *testing.F) {
	fuzzGrammar(f, ParseUserID, "@"+localGrammar+":"+serverGrammar, MaxIDLength, goodUsers, badUsers)
}

func FuzzRoomID(f *testing.F) {
	fuzzGrammar(f, ParseRoomID, "!"+localGrammar+":"+serverGrammar+`|![^:\x00]+`, MaxIDLength, goodRooms, badRooms)
}

func FuzzEventID(f *testing.F) {
	fuzzGrammar(f, ParseEventID, `\$[^\x00]+`, MaxIDLength, goodEvents, badEvents)
}

func FuzzRoomAlias(f *testing.F) {
	fuzzGrammar(f, ParseRoomAlias, `#[^:\x00]+:`+serverGrammar, MaxIDLength, goodAliases, badAliases)
}

func FuzzDeviceID(f *testing.F) {
	fuzzGrammar(f, ParseDeviceID, `[^\x00]+`, MaxIDLength, goodDevices, badDevices)
}
