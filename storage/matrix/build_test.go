package matrix

import (
	"math"
	"strings"
	"testing"
)

func TestBuildLimits(t *testing.T) {
	v, s := version(t, "12"), testSigner("one.example")
	base := func() Template {
		return Template{Type: "x", Sender: "@a:one.example", RoomID: roomFor(v), PrevEvents: []EventID{hashIDFor("p")}}
	}
	for _, c := range []struct {
		name   string
		change func(*Template)
		want   Code
	}{
		{"fine", func(*Template) {}, ""},
		{"content too large", func(p *Template) { p.Content = []byte(`{"x":"` + strings.Repeat("x", MaxEventSize) + `"}`) }, TooLarge},
		{"type too long", func(p *Template) { p.Type = strings.Repeat("é", 128) }, TooLarge},
		{"state key too long", func(p *Template) { k := strings.Repeat("x", 256); p.StateKey = &k }, TooLarge},
		{"float", func(p *Template) { p.Content = []byte(`{"x":0.5}`) }, BadJSON},
		{"duplicate key", func(p *Template) { p.Content = []byte(`{"x":1,"x":2}`) }, BadJSON},
		{"not an object", func(p *Template) { p.Content = []byte(`[]`) }, BadJSON},
		{"not JSON", func(p *Template) { p.Content = []byte(`{`) }, BadJSON},
		{"no sender", func(p *Template) { p.Sender = "" }, BadJSON},
		{"no room", func(p *Template) { p.RoomID = "" }, BadJSON},
		{"too many parents", func(p *Template) { p.PrevEvents = make([]EventID, 21) }, BadJSON},
		{"time out of range", func(p *Template) { p.OriginServerTS = math.MaxInt64 }, BadJSON},
	} {
		template := base()
		c.change(&template)
		if _, err := Build(v, template, s); codeOf(err) != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestBuildVersions(t *testing.T) {
	s := testSigner("one.example")
	for _, v := range versionsOf(t, "all") {
		template := Template{
			Type: TypeRedaction, Sender: "@a:one.example", RoomID: roomFor(v), Redacts: "$target", Depth: math.MaxInt64,
			Content: []byte(` {"reason":"\u0041", "redacts":"$old"} `), EventID: "$e:one.example",
			PrevEvents: []EventID{"$p:x"}, AuthEvents: []EventID{"$q:x"}, Hashes: map[EventID][32]byte{"$p:x": {1}, "$q:x": {2}},
		}
		e, err := Build(v, template, s)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, e.Redacts(), "$target")
		equal(t, e.Depth(), v.MaxDepth)
		equal(t, e.HashOK(), true)
		equal(t, e.PrevEvents()[0], "$p:x")
		equal(t, VerifyEventSignature(e, s.Server, s.KeyID, s.public()), nil)
		if _, state := e.StateKey(); state {
			t.Error("a message is a state event")
		}
		if v.IDFormat == IDServer {
			equal(t, e.ID(), "$e:one.example")
		}
		if template.Hashes = nil; v.PairReferences {
			if _, err := Build(v, template, s); err == nil {
				t.Error("built without reference hashes")
			}
		}
		large, err := e.AddSignature("x", "ed25519:1", make([]byte, MaxEventSize))
		if codeOf(err) != TooLarge {
			t.Errorf("got %v, %v", large, err)
		}
	}
}

// TestHashAndSignReplaces: a proposed event's own hashes, signatures,
// unsigned and (without meaning here) event_id do not survive.
func TestHashAndSignReplaces(t *testing.T) {
	v := version(t, "11")
	event := sample(v)
	event["unsigned"], event["event_id"] = map[string]any{"age": 1}, "$e:b.org"
	e, err := HashAndSign(v, marshal(t, event), testSigner("b.org"))
	if err != nil {
		t.Fatal(err)
	}
	if !e.HashOK() || e.Unsigned() != nil || strings.Contains(string(e.JSON()), `"abc"`) || strings.Contains(string(e.JSON()), "event_id") {
		t.Errorf("got %s", e.JSON())
	}
}
