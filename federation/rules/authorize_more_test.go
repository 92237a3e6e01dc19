package rules

import "hearth/storage/matrix"

func leaveCases(r *room) []authCase {
	leave := func(sender, key string) pdu {
		return pdu{typ: "m.room.member", key: key, sender: sender, content: member("leave")}
	}
	ban := func(sender, key string) pdu {
		return pdu{typ: "m.room.member", key: key, sender: sender, content: member("ban")}
	}
	is := func(user, membership string) []pdu {
		return []pdu{{id: "is", typ: "m.room.member", key: user, sender: user, content: member(membership)}}
	}
	set := func(extra string, users ...string) []pdu {
		return []pdu{{id: "levels2", typ: "m.room.power_levels", sender: alice, content: r.levels(extra, users...)}}
	}
	creators := pdu{id: "create", typ: "m.room.create", sender: alice, content: r.createContent(`"additional_creators":["@dave:a.test"],`)}
	return []authCase{
		{LeaveNotIn, false, "never in", nil, nil, nil, leave(carol, carol)},
		{LeaveNotIn, false, "banned", nil, nil, nil, leave(eve, eve)},
		{LeaveNotIn, false, "left", nil, is(carol, "leave"), nil, leave(carol, carol)},
		{LeaveNotIn, true, "joined", nil, nil, nil, leave(bob, bob)},
		{LeaveNotIn, true, "invited", nil, is(carol, "invite"), nil, leave(carol, carol)},
		{LeaveNotIn, true, "knocking", knock, is(carol, "knock"), nil, leave(carol, carol)},
		{LeaveNotIn, false, "knocking is unknown", not(knock), is(carol, "knock"), nil, leave(carol, carol)},
		{KickNotJoined, false, "not in the room", nil, nil, nil, leave(carol, dave)},
		{KickNotJoined, true, "in the room", nil, nil, nil, leave(bob, dave)},
		{UnbanLevel, false, "below the ban level", nil, set(`"ban":60,`), nil, leave(bob, eve)},
		{UnbanLevel, true, "at the ban level", nil, set(`"ban":50,`), nil, leave(bob, eve)},
		{KickLevel, false, "unban at the ban level, below the kick level", nil, set(`"ban":50,"kick":60,`), nil, leave(bob, eve)},
		{KickLevel, false, "unban of an equal", nil, set("", `"@eve:e.test":50`), nil, leave(bob, eve)},
		{KickLevel, false, "below the kick level", nil, set(`"kick":51,`), nil, leave(bob, dave)},
		{KickLevel, true, "at the kick level", nil, set(`"kick":50,`), nil, leave(bob, dave)},
		{KickLevel, false, "an equal", nil, set("", `"@dave:a.test":50`), nil, leave(bob, dave)},
		{KickLevel, true, "just below", nil, set("", `"@dave:a.test":49`), nil, leave(bob, dave)},
		{KickLevel, true, "an invite is taken back", nil, is(carol, "invite"), nil, leave(bob, carol)},
		{KickLevel, true, "the creator without levels", nil, nil, []Key{powerKey}, leave(alice, bob)},
		{KickLevel, false, "others without levels", nil, nil, []Key{powerKey}, leave(bob, dave)},
		{KickLevel, false, "a creator", privilegedCreators, []pdu{{id: "levels2", typ: "m.room.power_levels", sender: alice, content: onlyBobAt(r, "9007199254740991")}}, nil, leave(bob, alice)},
		{KickLevel, false, "a creator by a creator", privilegedCreators, []pdu{creators}, nil, leave(dave, alice)},
		{KickLevel, true, "the highest by a creator", privilegedCreators, set("", `"@dave:a.test":9007199254740991`), nil, leave(alice, dave)},
		{BanNotJoined, false, "not in the room", nil, nil, nil, ban(carol, dave)},
		{BanNotJoined, true, "in the room", nil, nil, nil, ban(bob, dave)},
		{BanLevel, false, "below the ban level", nil, set(`"ban":51,`), nil, ban(bob, dave)},
		{BanLevel, true, "at the ban level", nil, set(`"ban":50,`), nil, ban(bob, dave)},
		{BanLevel, false, "an equal", nil, set("", `"@dave:a.test":50`), nil, ban(bob, dave)},
		{BanLevel, false, "oneself", nil, nil, nil, ban(bob, bob)},
		{BanLevel, true, "somebody never in", nil, nil, nil, ban(bob, carol)},
		{BanLevel, false, "50 unless set", nil, set("", `"@dave:a.test":49`), nil, ban(dave, carol)},
	}
}

func knockCases() []authCase {
	ask := func(sender, key string) pdu {
		return pdu{typ: "m.room.member", key: key, sender: sender, content: member("knock")}
	}
	rule := func(name string, more ...pdu) []pdu {
		return append([]pdu{{id: "rules2", typ: "m.room.join_rules", sender: alice, content: joinRule(name)}}, more...)
	}
	is := func(membership string) pdu {
		return pdu{id: "is", typ: "m.room.member", key: carol, sender: alice, content: member(membership)}
	}
	return []authCase{
		{KnockRule, false, "invite", knock, rule("invite"), nil, ask(carol, carol)},
		{KnockRule, false, "public", knock, rule("public"), nil, ask(carol, carol)},
		{KnockRule, false, "restricted", knock, rule("restricted"), nil, ask(carol, carol)},
		{KnockRule, true, "knock", knock, rule("knock"), nil, ask(carol, carol)},
		{KnockRule, true, "knock_restricted", knockRestricted, rule("knock_restricted"), nil, ask(carol, carol)},
		{KnockRule, false, "knock_restricted is unknown", func(v *matrix.Version) bool { return v.Knock && !v.KnockRestricted }, rule("knock_restricted"), nil, ask(carol, carol)},
		{KnockNotSelf, false, "for another", knock, rule("knock"), nil, ask(bob, carol)},
		{KnockNotSelf, true, "for oneself", knock, rule("knock"), nil, ask(carol, carol)},
		{KnockMembership, false, "banned", knock, rule("knock"), nil, ask(eve, eve)},
		{KnockMembership, false, "invited", knock, rule("knock", is("invite")), nil, ask(carol, carol)},
		{KnockMembership, false, "joined", knock, rule("knock", is("join")), nil, ask(carol, carol)},
		{KnockMembership, true, "knocking", knock, rule("knock", is("knock")), nil, ask(carol, carol)},
		{KnockMembership, true, "left", knock, rule("knock", is("leave")), nil, ask(carol, carol)},
	}
}

func levelCases(r *room) []authCase {
	event := func(typ, key, sender string) pdu {
		return pdu{typ: typ, key: key, sender: sender, content: `{}`}
	}
	set := func(extra string, users ...string) []pdu {
		return []pdu{{id: "levels2", typ: "m.room.power_levels", sender: alice, content: r.levels(extra, users...)}}
	}
	redact := func(sender, id, redacts string) pdu {
		return pdu{id: id, typ: "m.room.redaction", key: "-", sender: sender, content: `{}`, redacts: redacts}
	}
	return []authCase{
		{EventLevel, false, "state at 50 unless set", nil, nil, nil, event("m.room.topic", "", dave)},
		{EventLevel, true, "state at 50", nil, nil, nil, event("m.room.topic", "", bob)},
		{EventLevel, false, "state at 50 without levels", nil, nil, []Key{powerKey}, event("m.room.topic", "", bob)},
		{EventLevel, true, "the creator without levels", nil, nil, []Key{powerKey}, event("m.room.topic", "", alice)},
		{EventLevel, true, "a message at 0 unless set", nil, nil, nil, event("m.room.message", "-", dave)},
		{EventLevel, false, "a message below events_default", nil, set(`"events_default":1,`), nil, event("m.room.message", "-", dave)},
		{EventLevel, false, "the type's own level", nil, set(`"events":{"m.room.topic":51},`), nil, event("m.room.topic", "", bob)},
		{EventLevel, true, "the type's own level, lower", nil, set(`"events":{"m.room.topic":0},`), nil, event("m.room.topic", "", dave)},
		{EventLevel, true, "users_default", nil, set(`"users_default":50,`), nil, event("m.room.topic", "", dave)},
		{EventLevel, false, "the creator is somebody like others with levels", not(privilegedCreators), []pdu{{id: "levels2", typ: "m.room.power_levels", sender: alice, content: `{}`}}, nil, event("m.room.topic", "", alice)},
		{EventLevel, true, "a creator is above all", privilegedCreators, set(`"state_default":9007199254740991,`), nil, event("m.room.topic", "", alice)},
		{EventLevel, true, "a level as a string", not(integerLevels), set(`"state_default":" +050 ",`), nil, event("m.room.topic", "", bob)},
		{EventLevel, true, "a level as a float", func(v *matrix.Version) bool { return v.FloatLevels }, set(`"state_default":50.9,`), nil, event("m.room.topic", "", bob)},
		{StateKeyOther, false, "another user's", nil, nil, nil, event("x", dave, bob)},
		{StateKeyOther, false, "no user's, but in the shape", nil, nil, nil, event("x", "@", bob)},
		{StateKeyOther, true, "one's own", nil, nil, nil, event("x", bob, bob)},
		{StateKeyOther, true, "of another shape", nil, nil, nil, event("x", "bob@b.test", bob)},
		{RedactionLevel, false, "another server's event", redaction, nil, nil, redact(dave, "r:a.test", "$x:b.test")},
		{RedactionLevel, false, "nothing", redaction, nil, nil, redact(dave, "r:a.test", "")},
		{RedactionLevel, true, "the own server's event", redaction, nil, nil, redact(dave, "r:a.test", "$x:a.test")},
		{RedactionLevel, true, "at the redact level", redaction, nil, nil, redact(bob, "r:b.test", "$x:a.test")},
		{EventLevel, true, "redactions are judged later", not(redaction), nil, nil, redact(dave, "r", "$x")},
		{EventLevel, false, "redactions need a level", nil, set(`"events":{"m.room.redaction":1},`), nil, redact(dave, "r:a.test", "$x:a.test")},
	}
}

func powerCases(r *room) []authCase {
	levels := func(sender, content string) pdu {
		return pdu{typ: "m.room.power_levels", sender: sender, content: content}
	}
	set := func(extra string, users ...string) []pdu {
		return []pdu{{id: "levels2", typ: "m.room.power_levels", sender: alice, content: r.levels(extra, users...)}}
	}
	// Bob, at 50, may send m.room.power_levels.
	next := func(extra string, users ...string) pdu { return levels(bob, r.levels(extra, users...)) }
	notifications := func(v *matrix.Version) bool { return v.NotificationsLevels }
	floats := func(v *matrix.Version) bool { return v.FloatLevels }
	creators := pdu{id: "create", typ: "m.room.create", sender: alice, content: r.createContent(`"additional_creators":["@dave:a.test"],`)}
	return []authCase{
		{PowerNotInteger, false, "a string", integerLevels, nil, nil, next(`"ban":"50",`)},
		{PowerNotInteger, false, "null", integerLevels, nil, nil, next(`"users_default":null,`)},
		{PowerNotInteger, false, "in the first event too", integerLevels, nil, []Key{powerKey}, levels(alice, `{"ban":"50"}`)},
		{PowerNotInteger, true, "an integer", integerLevels, nil, nil, next(`"ban":50,`)},
		{PowerMapNotInteger, false, "events no object", integerLevels, nil, nil, next(`"events":[],`)},
		{PowerMapNotInteger, false, "events with a string", integerLevels, nil, nil, next(`"events":{"x":"1"},`)},
		{PowerMapNotInteger, false, "notifications with true", integerLevels, nil, nil, next(`"notifications":{"room":true},`)},
		{PowerMapNotInteger, true, "integers", integerLevels, nil, nil, next(`"events":{"x":1},"notifications":{"room":1},`)},
		{PowerUsers, false, "no object", nil, nil, nil, levels(bob, `{"users":[]}`)},
		{PowerUsers, false, "a key that is no user ID", nil, nil, nil, next("", `"carol":0`)},
		{PowerUsers, false, "a level that is none", nil, nil, nil, next("", `"@carol:c.test":"many"`)},
		{PowerUsers, false, "a string", integerLevels, nil, nil, next("", `"@carol:c.test":"0"`)},
		{PowerUsers, true, "a string that is an integer", not(integerLevels), nil, nil, next("", `"@carol:c.test":" -07 "`)},
		{PowerUsers, false, "a string that is a float", not(integerLevels), nil, nil, next("", `"@carol:c.test":"7.0"`)},
		{PowerUsers, true, "a float", floats, nil, nil, next("", `"@carol:c.test":49.9`)},
		{PowerUsers, false, "elsewhere, no number at all", not(integerLevels), nil, nil, next(`"ban":{},`)},
		{PowerUsers, true, "none", nil, nil, []Key{powerKey}, levels(alice, `{}`)},
		{PowerUsers, true, "integers", nil, nil, nil, next("", `"@carol:c.test":0`)},
		{PowerCreator, false, "the sender of the create event", privilegedCreators, nil, nil, levels(bob, `{"users":{"@alice:a.test":0}}`)},
		{PowerCreator, false, "an additional creator", privilegedCreators, []pdu{creators}, nil, next("", `"@dave:a.test":0`)},
		{PowerCreator, true, "somebody who would be in another room", privilegedCreators, nil, nil, next("", `"@dave:a.test":0`)},
		{PowerPropCurrent, false, "lowered from above", nil, set(`"ban":51,`), nil, next(`"ban":50,`)},
		{PowerPropCurrent, false, "removed from above", nil, set(`"kick":51,`), nil, next("")},
		{PowerPropCurrent, true, "unchanged above", nil, set(`"ban":51,`), nil, next(`"ban":51,`)},
		{PowerPropCurrent, true, "lowered from one's own", nil, set(`"ban":50,`), nil, next(`"ban":0,`)},
		{PowerPropCurrent, true, "the same, as a string", not(integerLevels), set(`"ban":51,`), nil, next(`"ban":"51",`)},
		{PowerPropNew, false, "added above", nil, nil, nil, next(`"redact":51,`)},
		{PowerPropNew, false, "raised above", nil, set(`"invite":0,`), nil, next(`"invite":51,`)},
		{PowerPropNew, true, "raised to one's own", nil, set(`"invite":0,`), nil, next(`"invite":50,`)},
		{PowerPropNew, true, "raised by a creator", privilegedCreators, nil, nil, levels(alice, r.levels(`"invite":9007199254740991,`))},
		{PowerMapCurrent, false, "lowered from above", nil, set(`"events":{"x":51},`), nil, next(`"events":{"x":50},`)},
		{PowerMapCurrent, false, "removed from above", nil, set(`"events":{"x":51},`), nil, next("")},
		{PowerMapCurrent, true, "unchanged above", nil, set(`"events":{"x":51},`), nil, next(`"events":{"x":51},`)},
		{PowerMapCurrent, false, "notification lowered from above", notifications, set(`"notifications":{"room":51},`), nil, next(`"notifications":{"room":50},`)},
		{PowerMapCurrent, true, "notifications have no rule yet", not(notifications), set(`"notifications":{"room":51},`), nil, next(`"notifications":{"room":50},`)},
		{PowerMapNew, false, "added above", nil, nil, nil, next(`"events":{"x":51},`)},
		{PowerMapNew, false, "raised above", nil, set(`"events":{"x":0},`), nil, next(`"events":{"x":51},`)},
		{PowerMapNew, true, "raised to one's own", nil, set(`"events":{"x":0},`), nil, next(`"events":{"x":50},`)},
		{PowerMapNew, false, "notification added above", notifications, nil, nil, next(`"notifications":{"room":51},`)},
		{PowerMapNew, true, "notifications have no rule yet", not(notifications), nil, nil, next(`"notifications":{"room":51},`)},
		{PowerUserCurrent, false, "an equal lowered", nil, set("", `"@dave:a.test":50`), nil, next("", `"@dave:a.test":49`)},
		{PowerUserCurrent, false, "an equal removed", nil, set("", `"@dave:a.test":50`), nil, next("")},
		{PowerUserCurrent, false, "the creator removed", not(privilegedCreators), nil, nil, levels(bob, `{"users":{"@bob:b.test":50}}`)},
		{PowerUserCurrent, true, "one just below removed", nil, set("", `"@dave:a.test":49`), nil, next("")},
		{PowerUserCurrent, true, "an equal unchanged", nil, set("", `"@dave:a.test":50`), nil, next("", `"@dave:a.test":50`)},
		{PowerUserCurrent, true, "oneself lowered", nil, nil, nil, levels(bob, onlyBobAt(r, "0"))},
		{PowerUserCurrent, true, "the highest lowered by a creator", privilegedCreators, set("", `"@dave:a.test":9007199254740991`), nil, levels(alice, r.levels(""))},
		{PowerUserNew, false, "raised above", nil, nil, nil, next("", `"@dave:a.test":51`)},
		{PowerUserNew, false, "oneself raised", nil, nil, nil, levels(bob, onlyBobAt(r, "51"))},
		{PowerUserNew, true, "raised to one's own", nil, nil, nil, next("", `"@dave:a.test":50`)},
		{PowerUserNew, true, "the first event sets what it likes", nil, nil, []Key{powerKey}, levels(alice, r.levels(`"ban":1000,`, `"@dave:a.test":1000`))},
	}
}

// onlyBobAt is levels with another level of bob's.
func onlyBobAt(r *room, level string) string {
	users := `"` + bob + `":` + level
	if !r.version.PrivilegedCreators {
		users += `,"` + alice + `":100`
	}
	return `{"users":{` + users + `}}`
}
