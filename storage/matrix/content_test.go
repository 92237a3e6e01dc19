package matrix

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
)

// eventWith is an event of a type with the given content.
func eventWith(tb testing.TB, v *Version, typ, content string) *Event {
	tb.Helper()
	event := sample(v)
	event["type"] = typ
	raw := strings.Replace(string(marshal(tb, event)), `{"body":"text"}`, content, 1)
	e, err := ParseEvent(v, []byte(raw))
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestMemberContent(t *testing.T) {
	v := version(t, "12")
	for content, want := range map[string]MemberContent{
		`{}`:                      {},
		`{"membership":"join"}`:   {Membership: "join", HasMembership: true},
		`{"membership":["join"]}`: {HasMembership: true},
		`{"membership":"ban","join_authorised_via_users_server":"@a:b"}`: {Membership: "ban", HasMembership: true, AuthorisedVia: "@a:b", HasAuthorisedVia: true},
		`{"join_authorised_via_users_server":"a:b"}`:                     {HasAuthorisedVia: true},
		`{"join_authorised_via_users_server":null}`:                      {HasAuthorisedVia: true},
	} {
		if got := *eventWith(t, v, TypeMember, content).Member(); got != want {
			t.Errorf("%s: got %+v", content, got)
		}
	}
	for content, want := range map[string]InviteContent{
		`null`:                                   {},
		`{}`:                                     {},
		`{"signed":5}`:                           {},
		`{"signed":{}}`:                          {},
		`{"signed":{"mxid":5,"token":null}}`:     {HasMXID: true, HasToken: true},
		`{"signed":{"mxid":"@a:b","token":"t"}}`: {MXID: "@a:b", Token: "t", HasMXID: true, HasToken: true},
	} {
		got := eventWith(t, v, TypeMember, `{"third_party_invite":`+content+`}`).Member().ThirdPartyInvite
		if got == nil || got.MXID != want.MXID || got.Token != want.Token || got.HasMXID != want.HasMXID || got.HasToken != want.HasToken ||
			(got.Signed != nil) != strings.Contains(content, `"signed":{`) {
			t.Errorf("%s: got %+v", content, got)
		}
	}
	if m := eventWith(t, v, "m.room.message", `{"membership":"join"}`).Member(); m.Membership != "" {
		t.Error("a message has a membership")
	}
}

func TestCreateContent(t *testing.T) {
	creators := func(list ...UserID) []UserID { return list }
	for _, c := range []struct {
		content  string
		versions string
		creators []UserID
		room     RoomVersion
		federate bool
		bad      bool
	}{
		{`{}`, "1-10", nil, "1", true, false},
		{`{}`, "11-12", creators("@a:b.org"), "1", true, false},
		{`{"creator":"@c:c"}`, "1-10", creators("@c:c"), "1", true, false},
		{`{"creator":"@c:c"}`, "11-12", creators("@a:b.org"), "1", true, false},
		{`{"creator":5,"m.federate":false}`, "1-10", nil, "1", false, false},
		{`{"room_version":"x","m.federate":"false"}`, "12", creators("@a:b.org"), "x", true, false},
		{`{"room_version":12}`, "12", creators("@a:b.org"), "", true, false},
		{`{"additional_creators":["@c:c","@d:d"]}`, "12", creators("@a:b.org", "@c:c", "@d:d"), "1", true, false},
		{`{"additional_creators":["@c:c","@d:d"]}`, "11", creators("@a:b.org"), "1", true, false},
		{`{"additional_creators":["@c:c","d"]}`, "12", creators("@a:b.org"), "1", true, true},
		{`{"additional_creators":["@c:c",5]}`, "12", creators("@a:b.org"), "1", true, true},
		{`{"additional_creators":{}}`, "12", creators("@a:b.org"), "1", true, true},
		{`{"additional_creators":[]}`, "12", creators("@a:b.org"), "1", true, false},
	} {
		for _, v := range versionsOf(t, c.versions) {
			got := eventWith(t, v, TypeCreate, c.content).Create()
			if !slices.Equal(got.Creators, c.creators) || got.RoomVersion != c.room || got.Federate != c.federate || got.BadCreators != c.bad {
				t.Errorf("version %s, %s: got %+v", v.ID, c.content, got)
			}
		}
	}
}

func TestPowerLevelForms(t *testing.T) {
	for _, c := range []struct {
		content string
		in      string // the room versions that take it
		want    int64  // of @a:b
	}{
		{`{}`, "all", 0},
		{`{"users_default":7}`, "all", 7},
		{`{"users":{"@a:b":5},"users_default":7}`, "all", 5},
		{`{"users":{"@A é:b":1,"@a:b":2}}`, "all", 2},
		{`{"users":{"@\"\u0001:b":1,"@a:b":2}}`, "all", 2},
		{`{"users":{"a:b":5}}`, "", 0},
		{`{"users":{"@a":5}}`, "", 0},
		{`{"users":[]}`, "", 0},
		{`{"users":null}`, "", 0},
		{`{"users":{"@a:b":null}}`, "", 0},
		{`{"users":{"@a:b":true}}`, "", 0},
		{`{"users":{"@a:b":[5]}}`, "", 0},
		{`{"users":{"@a:b":"\t5\u00a0"}}`, "1-9", 5},
		{`{"users":{"@a:b":"- 5"}}`, "", 0},
		{`{"users":{"@a:b":"+-5"}}`, "", 0},
		{`{"users":{"@a:b":"5.0"}}`, "", 0},
		{`{"users":{"@a:b":"1_0"}}`, "", 0},
		{`{"users":{"@a:b":"0x5"}}`, "", 0},
		{`{"users":{"@a:b":"٥"}}`, "", 0},
		{`{"users":{"@a:b":""}}`, "", 0},
		{`{"users":{"@a:b":"+"}}`, "", 0},
		{`{"users":{"@a:b":"99999999999999999999"}}`, "1-9", math.MaxInt64},
		{`{"users":{"@a:b":-99999999999999999999}}`, "1-5", math.MinInt64},
		{`{"users":{"@a:b":1e300}}`, "1-5", math.MaxInt64},
		{`{"users":{"@a:b":-1.5e300}}`, "1-5", math.MinInt64},
		{`{"users":{"@a:b":-1.9}}`, "1-5", -1},
		{`{"users":{"@a:b":1e400}}`, "", 0},
		{`{"kick":"x"}`, "", 0},
		{`{"redact":{}}`, "", 0},
		{`{"events":[]}`, "", 0},
		{`{"events":{"x":"y"}}`, "", 0},
		{`{"notifications":[]}`, "1-5", 0},
		{`{"notifications":{"room":"x"}}`, "1-5", 0},
		{`{"notifications":{"room":"50"}}`, "1-9", 0},
		{`{"other":[]}`, "all", 0},
	} {
		good := versionsOf(t, "all")
		if c.in == "" {
			good = nil
		} else if c.in != "all" {
			good = versionsOf(t, c.in)
		}
		for _, v := range versionsOf(t, "all") {
			p, err := levelsOf(v, c.content)
			if (err == nil) != slices.Contains(good, v) {
				t.Errorf("version %s, %s: got error %v", v.ID, c.content, err)
			} else if err == nil {
				equal(t, p.User("@a:b"), c.want)
			}
		}
	}
}

func TestPowerLevelDefaults(t *testing.T) {
	v := version(t, "12")
	p, err := eventWith(t, v, TypePowerLevels, `{}`).PowerLevels()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, fmt.Sprint(p.BanLevel(), p.KickLevel(), p.RedactLevel(), p.InviteLevel(), p.Event("x", true), p.Event("x", false), p.User("@a:b")), "50 50 50 0 50 0 0")
	p, err = eventWith(t, v, TypePowerLevels, `{"ban":1,"kick":2,"redact":3,"invite":4,"state_default":5,"events_default":6,"users_default":7,"events":{"y":8},"notifications":{"room":9},"users":{}}`).PowerLevels()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, fmt.Sprint(p.BanLevel(), p.KickLevel(), p.RedactLevel(), p.InviteLevel(), p.Event("x", true), p.Event("x", false), p.User("@a:b"), p.Event("y", true), p.Notifications["room"]), "1 2 3 4 5 6 7 8 9")
	c := p.Clone()
	if c.Events["y"] = 100; p.Events["y"] != 8 {
		t.Error("a clone shares its maps")
	}
	e := eventWith(t, v, TypePowerLevels, `{"ban":"x"}`)
	if p, err := e.PowerLevels(); err == nil || p == nil || p.BanLevel() != 50 {
		t.Errorf("malformed: got %+v, %v", p, err)
	}
}

// TestContentParsedOnce asks many times at once and always gets the same value.
func TestContentParsedOnce(t *testing.T) {
	e := eventWith(t, version(t, "12"), TypePowerLevels, `{"users":{"@a:b":5}}`)
	got := make([]*PowerLevels, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], _ = e.PowerLevels() })
	}
	wg.Wait()
	for _, p := range got {
		if p != got[0] || p.User("@a:b") != 5 {
			t.Fatal("power levels were parsed again")
		}
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = e.PowerLevels() }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}
