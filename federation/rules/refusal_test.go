package rules

import (
	"errors"
	"slices"
	"testing"

	"hearth/storage/matrix"
)

// TestSections compares rule numbers with those printed on the room version pages.
func TestSections(t *testing.T) {
	tests := []struct {
		version matrix.RoomVersion
		rule    Rule
		want    string
	}{
		{"1", CreateHasPrev, "1.1"}, {"1", CreateDomain, "1.2"}, {"1", CreateNoCreator, "1.4"},
		{"1", AuthNoCreate, "2.4"}, {"1", AuthOtherRoom, "2.5"}, {"1", NotFederated, "3"},
		{"1", AliasesDomain, "4.2"}, {"1", MemberShape, "5.1"}, {"1", JoinBanned, "5.2.3"},
		{"1", JoinRule, "5.2.6"}, {"1", ThirdPartySignature, "5.3.1.8"}, {"1", InviteLevel, "5.3.5"},
		{"1", KickLevel, "5.4.5"}, {"1", BanLevel, "5.5.3"}, {"1", MembershipUnknown, "5.6"},
		{"1", SenderNotJoined, "6"}, {"1", ThirdPartyLevel, "7.1"}, {"1", EventLevel, "8"},
		{"1", StateKeyOther, "9"}, {"1", PowerUsers, "10.1"}, {"1", PowerPropNew, "10.3.2"},
		{"1", PowerMapCurrent, "10.4.1"}, {"1", PowerUserNew, "10.7.1"}, {"1", RedactionLevel, "11.3"},
		{"1", KnockRule, ""}, {"1", NoRoom, ""}, {"1", MemberNotCosigned, ""},
		{"3", RedactionLevel, ""}, {"5", AliasesNoStateKey, "4.1"},
		{"6", AliasesNoStateKey, ""}, {"6", JoinBanned, "4.2.3"}, {"6", SenderNotJoined, "5"},
		{"6", PowerMapNew, "9.5.1"}, {"7", KnockRule, "4.6.1"}, {"7", MembershipUnknown, "4.7"},
		{"8", MemberNotCosigned, "4.2.1"}, {"8", JoinNotAuthorised, "4.3.5.2"}, {"8", JoinRule, "4.3.7"},
		{"9", KnockMembership, "4.7.4"}, {"9", MembershipUnknown, "4.8"}, {"9", PowerUsers, "9.1"},
		{"10", PowerNotInteger, "9.1"}, {"10", PowerMapNotInteger, "9.2"}, {"10", PowerUsers, "9.3"},
		{"10", PowerPropNew, "9.5.2"}, {"10", PowerUserCurrent, "9.8.1"}, {"10", CreateNoCreator, "1.4"},
		{"11", CreateNoCreator, ""}, {"12", CreateHasRoomID, "1.2"}, {"12", CreateAdditional, "1.4"},
		{"12", NoRoom, "2"}, {"12", AuthRejected, "3.3"}, {"12", AuthNoCreate, ""},
		{"12", NotFederated, "4"}, {"12", JoinNotAuthorised, "5.3.5.2"}, {"12", ThirdPartySignature, "5.4.1.8"},
		{"12", UnbanLevel, "5.5.3"}, {"12", PowerCreator, "10.4"}, {"12", PowerPropCurrent, "10.6.1"},
		{"12", PowerUserNew, "10.10.1"}, {"unknown", JoinRule, ""},
	}
	for _, tt := range tests {
		if got := tt.rule.Section(tt.version); got != tt.want {
			t.Errorf("v%s %v: got %q, want %q", tt.version, tt.rule, got, tt.want)
		}
	}
}

// TestRuleNames wants each rule to be one line of the outline, with a name of its own.
func TestRuleNames(t *testing.T) {
	lines, names := make(map[Rule]int), make(map[string]bool)
	for _, line := range outline {
		if line.rule == 0 {
			continue
		}
		lines[line.rule]++
		if names[line.name] || line.name == "" || line.text == "" {
			t.Errorf("rule %d: name %q or text %q", line.rule, line.name, line.text)
		}
		names[line.name] = true
	}
	for rule := CreateHasPrev; rule <= RedactionLevel; rule++ {
		if lines[rule] != 1 {
			t.Errorf("%v is on %d lines", rule, lines[rule])
		}
	}
	if got, want := Rule(200).String(), "rule 200"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRefusalError(t *testing.T) {
	err := error(&Refusal{Rule: JoinNotSelf, Version: "6", Event: "$x"})
	want := "event $x refused by v6 4.2.2 (join.not_self): the sender is not the state key"
	if got := err.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, &Refusal{Rule: JoinNotSelf}) || errors.Is(err, &Refusal{Rule: JoinBanned}) {
		t.Error("errors.Is does not tell rules apart")
	}
}

// TestCheckAuthEvents tries the rules about auth_events.
func TestCheckAuthEvents(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		r := newRoom(t, v.ID)
		r.add(baseState(r)...)
		r.add(pdu{id: "rules2", typ: "m.room.join_rules", sender: alice, content: joinRule("public")},
			pdu{id: "levels2", typ: "m.room.power_levels", sender: alice, content: r.levels("")},
			pdu{id: "bad", typ: "m.room.member", key: carol, sender: carol, content: member("join")},
			pdu{id: "message", typ: "m.room.message", key: "-", sender: bob, content: `{}`},
		)
		r.mark("bad", RejectedByState)
		other := newRoom(t, v.ID)
		other.id = "!other:a.test"
		if v.RoomIDFromCreate {
			other.id = hashRoom("other")
		}
		other.add(pdu{id: "far", typ: "m.room.member", key: bob, sender: bob, content: member("join")})
		r.stored[other.event("far").ID()] = Stored{Event: other.event("far")}

		create := "create "
		if v.RoomIDFromCreate {
			create = ""
		}
		message := pdu{id: "m", typ: "m.room.message", key: "-", sender: bob, content: `{}`}
		join := pdu{id: "j", typ: "m.room.member", key: carol, sender: carol, content: member("join")}
		for _, tt := range []struct {
			name string
			ev   pdu
			auth string
			rule Rule
		}{
			{"as selected", message, create + "levels bob", 0},
			{"fewer than selected", message, create + "bob", 0},
			{"a join", join, create + "levels rules", 0},
			{"two levels", message, create + "levels levels2 bob", AuthDuplicate},
			{"one event twice", message, create + "levels bob bob", AuthDuplicate},
			{"another member", message, create + "levels bob dave", AuthUnexpected},
			{"join rules for a message", message, create + "levels rules bob", AuthUnexpected},
			{"an event that is not state", message, create + "message", AuthUnexpected},
			{"a rejected event", join, create + "levels rules bad", AuthRejected},
			{"of another room", message, create + "levels far", AuthOtherRoom},
		} {
			tt.ev.auth = tt.auth
			checkAuth(t, r, tt.name, tt.ev, tt.rule)
		}
		message.auth = "levels bob"
		if v.RoomIDFromCreate {
			message.auth = "create levels bob"
			checkAuth(t, r, "the create event", message, AuthUnexpected)
		} else {
			checkAuth(t, r, "no create event", message, AuthNoCreate)
		}
		message.auth = "levels nobody"
		err := CheckAuthEvents(r.build(message), r.authOf(r.build(message)))
		if refusal := (*Refusal)(nil); err == nil || errors.As(err, &refusal) {
			t.Errorf("an auth event that is not there: got %v", err)
		}
	})
}

func checkAuth(t *testing.T, r *room, name string, p pdu, want Rule) {
	t.Helper()
	ev := r.build(p)
	switch err := CheckAuthEvents(ev, r.authOf(ev)); {
	case want == 0 && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != 0 && !errors.Is(err, &Refusal{Rule: want}):
		t.Errorf("%s: got %v, want %v", name, err, want)
	}
}

func (r *room) authOf(ev *matrix.Event) []Stored {
	list, _ := r.Events(ev.AuthEvents())
	return list
}

// TestAuthorizeByAuthEvents wants the create event to come from where the
// room version has it, and to count only if it was accepted.
func TestAuthorizeByAuthEvents(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		r := newRoom(t, v.ID)
		r.add(baseState(r)...)
		p := pdu{id: "m", typ: "m.room.message", key: "-", sender: bob, content: `{}`, auth: "create levels bob"}
		if v.RoomIDFromCreate {
			p.auth = "levels bob"
		}
		ev := r.build(p)
		create := r.stored[r.find("create")]
		if err := AuthorizeByAuthEvents(ev, r.authOf(ev), create); err != nil {
			t.Error(err)
		}
		create.Standing = RejectedByAuth
		err := AuthorizeByAuthEvents(ev, r.authOf(ev), create)
		if refused := errors.Is(err, &Refusal{Rule: NoRoom}); refused != v.RoomIDFromCreate {
			t.Errorf("rejected create event: got %v", err)
		}
		p.auth = "create bob" // without levels bob is nobody: a message is fine, state is not
		if v.RoomIDFromCreate {
			p.auth = "bob"
		}
		p.typ, p.key = "m.room.topic", ""
		ev = r.build(p)
		if err := AuthorizeByAuthEvents(ev, r.authOf(ev), r.stored[r.find("create")]); !errors.Is(err, &Refusal{Rule: EventLevel}) {
			t.Errorf("without levels: got %v", err)
		}
	})
}

func TestAuthKeys(t *testing.T) {
	third := `{"membership":"invite","third_party_invite":{"signed":{"token":"tok","mxid":"x"}}}`
	via := `{"membership":"join","join_authorised_via_users_server":"@alice:a.test"}`
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		r := newRoom(t, v.ID)
		for _, tt := range []struct {
			ev   pdu
			want []Key
		}{
			{pdu{typ: "m.room.create", sender: alice, content: `{}`}, nil},
			{pdu{typ: "m.room.topic", sender: bob, content: `{}`}, nil},
			{pdu{typ: "m.room.member", key: bob, sender: bob, content: member("leave")}, nil},
			{pdu{typ: "m.room.member", key: carol, sender: bob, content: member("ban")}, []Key{{"m.room.member", carol}}},
			{pdu{typ: "m.room.member", key: bob, sender: bob, content: member("join")}, []Key{{"m.room.join_rules", ""}}},
			{pdu{typ: "m.room.member", key: bob, sender: bob, content: member("knock")}, []Key{{"m.room.join_rules", ""}}},
			{pdu{typ: "m.room.member", key: carol, sender: bob, content: third}, []Key{{"m.room.member", carol}, {"m.room.join_rules", ""}, {"m.room.third_party_invite", "tok"}}},
			{pdu{typ: "m.room.member", key: bob, sender: bob, content: via}, []Key{{"m.room.join_rules", ""}, {"m.room.member", alice}}},
		} {
			tt.ev.id = "x"
			if tt.ev.typ != matrix.TypeCreate {
				base := []Key{powerKey, {"m.room.member", bob}}
				if !v.RoomIDFromCreate {
					base = append([]Key{createKey}, base...)
				}
				tt.want = append(base, tt.want...)
			}
			if tt.ev.content == via && !v.Restricted {
				tt.want = tt.want[:len(tt.want)-1]
			}
			ev := r.build(tt.ev)
			if got := AuthKeys(ev); !slices.Equal(got, tt.want) {
				t.Errorf("%s: got %v, want %v", ev.JSON(), got, tt.want)
			}
			key := tt.ev.key
			template := &matrix.Template{Type: tt.ev.typ, StateKey: &key, Sender: matrix.UserID(tt.ev.sender), Content: []byte(tt.ev.content)}
			if got := TemplateAuthKeys(v, template); !slices.Equal(got, tt.want) {
				t.Errorf("template of %s: got %v, want %v", ev.JSON(), got, tt.want)
			}
		}
	})
}

// TestSelectAuthEvents leaves out what the state does not have.
func TestSelectAuthEvents(t *testing.T) {
	r := newRoom(t, "11")
	r.add(baseState(r)...)
	state := make(Events).Add(r.event("create"), r.event("bob"), r.event("rules"))
	ev := r.build(pdu{id: "x", typ: "m.room.topic", sender: bob, content: `{}`})
	want := []*matrix.Event{r.event("create"), r.event("bob")}
	if got := SelectAuthEvents(AuthKeys(ev), state); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestRedactionApplies asks who may redact whose event once the redaction was
// accepted.
func TestRedactionApplies(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		r := newRoom(t, v.ID)
		state := make(Events)
		for _, p := range baseState(r) {
			state.Add(r.build(p))
		}
		r.add(pdu{id: "m:b.test", typ: "m.room.message", key: "-", sender: bob, content: `{}`})
		target := r.event("m:b.test")
		for _, tt := range []struct {
			name, sender, redacts string
			want                  bool
		}{
			{"the same server", "@other:b.test", "$m:b.test", true},
			{"at the redact level", bob, "$m:b.test", true},
			{"a creator or level 100", alice, "$m:b.test", true},
			{"below, of another server", dave, "$m:b.test", v.RedactionRule}, // there it would not have been accepted
			{"another event", alice, "$n:b.test", false},
		} {
			p := pdu{id: "r", typ: "m.room.redaction", key: "-", sender: tt.sender, content: `{}`, redacts: tt.redacts}
			if v.RedactsInContent {
				p.content, p.redacts = `{"redacts":"`+tt.redacts+`"}`, ""
			}
			if got := RedactionApplies(r.build(p), target, state); got != tt.want {
				t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
		}
	})
}

func TestPower(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		r := newRoom(t, v.ID)
		state := make(Events)
		for _, p := range baseState(r) {
			state.Add(r.build(p))
		}
		want := map[matrix.UserID]int64{alice: 100, bob: 50, carol: 0}
		if v.PrivilegedCreators {
			want[alice] = Infinite
		}
		for user, want := range want {
			if got := Power(v, state, user); got != want {
				t.Errorf("%s: got %d, want %d", user, got, want)
			}
		}
		delete(state, powerKey)
		want[bob] = 0
		for user, want := range want {
			if got := Power(v, state, user); got != want {
				t.Errorf("without levels, %s: got %d, want %d", user, got, want)
			}
		}
		if got := Power(v, Events{}, alice); got != 0 {
			t.Errorf("in no room: got %d", got)
		}
	})
}
