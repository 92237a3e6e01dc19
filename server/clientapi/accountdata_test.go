package clientapi_test

import (
	"strings"
	"testing"

	"hearth/server/account"
	"hearth/server/clientapi"
	"hearth/storage"
	"hearth/storage/matrix"
)

func TestAccountData(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	alice, bob := s.register("alice"), s.register("bob")
	global := v3 + "/user/" + esc(alice.id) + "/account_data/"
	room := v3 + "/user/" + esc(alice.id) + "/rooms/" + esc("!r:elsewhere.test") + "/account_data/"

	for _, at := range []string{global, room} {
		alice.do("GET", at+"m.test", "").fails(404, matrix.NotFound)
		const content = `{"z":1,"a":{"big":9007199254740993,"text":"ü\u00fc"}}`
		if got := alice.do("PUT", at+"m.test", " "+content+"\n").ok().raw; got != "{}" {
			t.Errorf("PUT answers %s", got)
		}
		if got := alice.do("GET", at+"m.test", "").ok().raw; got != content {
			t.Errorf("got %s, want %s", got, content)
		}
		alice.do("PUT", at+"m.test", "{}").ok() // content like any other
		if got := alice.do("GET", at+"m.test", "").ok().raw; got != "{}" {
			t.Errorf("got %s, want {}", got)
		}
		alice.do("PUT", at+esc("a/b c%"), `{"n":1}`).ok()
		alice.do("GET", at+esc("a/b c%"), "").ok()

		for _, typ := range []string{"m.fully_read", "m.push_rules"} {
			alice.do("PUT", at+typ, "{}").fails(405, matrix.BadJSON)
			alice.do("GET", at+typ, "").fails(404, matrix.NotFound) // may be read; there is none yet
		}
		alice.do("PUT", at+"m.test", "").fails(400, matrix.NotJSON)
		alice.do("PUT", at+"m.test", "{").fails(400, matrix.NotJSON)
		for _, bad := range []string{"[]", "1", `"x"`, "null", `{"a":1,"a":2}`} {
			alice.do("PUT", at+"m.test", bad).fails(400, matrix.BadJSON)
		}
		alice.do("PUT", at+strings.Repeat("t", 256), "{}").fails(400, matrix.InvalidParam)
		bob.do("GET", at+"m.test", "").fails(403, matrix.Forbidden)
		bob.do("PUT", at+"m.test", "{}").fails(403, matrix.Forbidden)
		s.do("", "GET", at+"m.test", "").fails(401, matrix.MissingToken)
		s.do("", "PUT", at+"m.test", "{}").fails(401, matrix.MissingToken)
	}
	// There is no inheritance between the two.
	alice.do("PUT", global+"m.only", "{}").ok()
	alice.do("GET", room+"m.only", "").fails(404, matrix.NotFound)
	noRoom := v3 + "/user/" + esc(alice.id) + "/rooms/" + esc("@r:hs.test") + "/account_data/m.test"
	alice.do("GET", noRoom, "").fails(400, matrix.InvalidParam)
	alice.do("PUT", noRoom, "{}").fails(400, matrix.InvalidParam)
}

func TestAccountDataIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(_ *account.Options, o *clientapi.Options) {
		o.AccountData = storage.AccountDataLimits{Entries: 2, Bytes: 2000}
	})
	alice := s.register("alice")
	put := func(typ string, bytes int) *answer {
		t.Helper()
		return alice.do("PUT", v3+"/user/"+esc(alice.id)+"/account_data/"+typ, `{"k":"`+strings.Repeat("x", bytes)+`"}`)
	}
	put("a", 900).ok()
	put("b", 900).ok()
	put("b", 1200).fails(413, matrix.TooLarge)
	put("c", 1).fails(413, matrix.TooLarge)
	put("a", 10).ok()
	put("b", 1200).ok()
}
