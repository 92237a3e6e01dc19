package matrix

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenEvent is what a golden file records of one event.
type goldenEvent struct {
	Name       string         `json:"name"`
	ID         EventID        `json:"id"`
	RoomID     RoomID         `json:"room_id"`
	Event      jsontext.Value `json:"event"`
	Redacted   jsontext.Value `json:"redacted"`
	Content    string         `json:"content_hash"`
	Reference  string         `json:"reference_hash"`
	Signatures []ServerName   `json:"required_signatures"`
	// Elsewhere is the event read by each room version: its ID there, or the error.
	Elsewhere map[RoomVersion]string `json:"elsewhere"`
}

// goldenTemplates are the events of each golden file, each naming those before it.
func goldenTemplates(v *Version) []Template {
	empty, alice, bob, token := "", "@alice:one.example", "@bob:two.example", "token"
	list := []Template{
		{Type: TypeCreate, StateKey: &empty, Content: []byte(`{"creator":"@alice:one.example","room_version":"` +
			string(v.ID) + `","additional_creators":["@bob:two.example"],"x":1}`)},
		{Type: TypeMember, StateKey: &alice, Content: []byte(`{"membership":"join","displayname":"Alice \"🐈\"\n","join_authorised_via_users_server":"@carol:three.example"}`)},
		{Type: TypePowerLevels, StateKey: &empty, Content: []byte(`{"users":{"@bob:two.example":50,"@Zoë:two.example":-1},"invite":10,"ban":60,"events":{"m.room.name":30},"notifications":{"room":20}}`)},
		{Type: TypeJoinRules, StateKey: &empty, Content: []byte(`{"join_rule":"restricted","allow":[{"type":"m.room_membership","room_id":"!space:one.example"}],"x":null}`)},
		{Type: TypeHistoryVisibility, StateKey: &empty, Content: []byte(`{"history_visibility":"shared","x":[{"b":{},"a":[]}]}`)},
		{Type: TypeThirdPartyInvite, StateKey: &token, Content: []byte(`{"display_name":"b","public_key":"abc"}`)},
		{Type: TypeMember, StateKey: &bob, Content: []byte(`{"membership":"invite","third_party_invite":{"display_name":"b","signed":{"mxid":"@bob:two.example","token":"token","signatures":{}}}}`)},
		{Type: TypeAliases, StateKey: &empty, Content: []byte(`{"aliases":["#a:one.example"]}`)},
		{Type: "m.room.message", Content: []byte(`{"body":"日本\u0001\u007f","msgtype":"m.text","n":[9007199254740991,-9007199254740991,0,true,null]}`)},
		{Type: TypeRedaction, Redacts: hashIDFor("redacted"), Content: []byte(`{"reason":"spam"}`)},
	}
	for i := range list {
		t := &list[i]
		t.Sender, t.RoomID = "@alice:one.example", "!room:one.example"
		t.OriginServerTS, t.Depth = 1700000000000+int64(i), int64(i+1)
		if v.IDFormat == IDServer {
			t.EventID = EventID("$" + string(rune('a'+i)) + ":four.example")
		}
	}
	return list
}

// TestGolden builds events of every room version and compares them, byte by
// byte, with what earlier code made of them. Run with -update after a change
// that is meant to alter them, which for a released room version is never.
func TestGolden(t *testing.T) {
	for _, v := range versionsOf(t, "all") {
		t.Run(string(v.ID), func(t *testing.T) {
			var list []goldenEvent
			var room RoomID
			var last *Event
			for _, template := range goldenTemplates(v) {
				if last != nil {
					template.PrevEvents, template.AuthEvents = []EventID{last.ID()}, []EventID{last.ID()}
					template.Hashes = map[EventID][32]byte{last.ID(): last.ReferenceHash()}
				}
				if v.RoomIDFromCreate {
					template.RoomID = room
				}
				e, err := Build(v, template, testSigner("one.example"))
				if err != nil {
					t.Fatal(err)
				}
				if last = e; room == "" {
					room = e.RoomID()
				}
				list = append(list, golden(t, template.Type, e))
			}
			compareGolden(t, filepath.Join("testdata", "golden", "v"+string(v.ID)+".json"), list)
		})
	}
}

func golden(t *testing.T, name string, e *Event) goldenEvent {
	t.Helper()
	v := e.Version()
	redacted, err := Redact(v, e.JSON())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, string(e.Redacted().JSON()), string(redacted))
	content, err := ContentHash(v, e.JSON())
	if err != nil {
		t.Fatal(err)
	}
	reference, err := ReferenceHash(v, e.JSON())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, e.ReferenceHash(), reference)
	g := goldenEvent{name, e.ID(), e.RoomID(), e.JSON(), redacted, EncodeBase64(content[:]), EncodeBase64(reference[:]),
		RequiredSignatures(e), make(map[RoomVersion]string)}
	for _, other := range versionsOf(t, "all") {
		if o, err := ParseEvent(other, e.JSON()); err != nil {
			g.Elsewhere[other.ID] = err.Error()
		} else {
			g.Elsewhere[other.ID] = string(o.ID())
		}
	}
	return g
}

func compareGolden(t *testing.T, path string, got any) {
	t.Helper()
	b, err := json.Marshal(got, json.Deterministic(true), jsontext.Multiline(true))
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s differs from what the code makes:\n%s", path, b)
	}
}
