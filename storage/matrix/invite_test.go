package matrix

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

func TestVerifyThirdPartyInvite(t *testing.T) {
	v, s := version(t, "10"), testSigner("id.example")
	other := testSigner("other").public()
	signed, err := SignJSON([]byte(`{"mxid":"@bob:two.example","token":"t"}`), s)
	if err != nil {
		t.Fatal(err)
	}
	key, url := EncodeBase64(s.public()), base64.URLEncoding.EncodeToString(s.public())
	wrong := EncodeBase64(other)
	for _, c := range []struct {
		name, invite, signed string
		want                 bool
	}{
		{"public_key", `{"public_key":"` + key + `"}`, string(signed), true},
		{"URL-safe and padded", `{"public_key":"` + url + `"}`, string(signed), true},
		{"public_keys", `{"public_key":"` + wrong + `","public_keys":[{"public_key":"` + wrong + `"},{"public_key":"` + key + `"}]}`, string(signed), true},
		{"no key fits", `{"public_key":"` + wrong + `"}`, string(signed), false},
		{"no keys", `{}`, string(signed), false},
		{"keys of another kind", `{"public_key":5,"public_keys":["` + key + `",{"public_key":"x"}]}`, string(signed), false},
		{"changed", `{"public_key":"` + key + `"}`, strings.Replace(string(signed), "bob", "eve", 1), false},
		{"no signatures", `{"public_key":"` + key + `"}`, `{"mxid":"@bob:two.example","token":"t"}`, false},
		{"another signer's beside it", `{"public_key":"` + key + `"}`, strings.Replace(string(signed), `"signatures":{`, `"signatures":{"a":{"ed25519:0":"YWJj"},`, 1), true},
		{"unknown algorithm", `{"public_key":"` + key + `"}`, strings.Replace(string(signed), `"ed25519:1"`, `"rsa:1"`, 1), false},
		{"not signed at all", `{"public_key":"` + key + `"}`, `5`, false},
	} {
		member := eventWith(t, v, TypeMember, `{"membership":"invite","third_party_invite":{"signed":`+c.signed+`}}`)
		invite := eventWith(t, v, TypeThirdPartyInvite, c.invite)
		if got := VerifyThirdPartyInvite(member, invite); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
		if VerifyThirdPartyInvite(invite, member) {
			t.Errorf("%s: roles swapped", c.name)
		}
	}
}

// TestThirdPartyInviteBound: many keys and signatures cost a bounded time; the
// matching key, put last, is then not found.
func TestThirdPartyInviteBound(t *testing.T) {
	v, s := version(t, "10"), testSigner("id.example")
	signed, err := SignJSON([]byte(`{"mxid":"@bob:two.example","token":"t"}`), s)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{maxInviteChecks - 1: true, maxInviteChecks: false} {
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprintf(`{"public_key":%q}`, EncodeBase64(testSigner(ServerName(fmt.Sprint(i))).public())))
		}
		keys = append(keys, fmt.Sprintf(`{"public_key":%q}`, EncodeBase64(s.public())))
		member := eventWith(t, v, TypeMember, `{"third_party_invite":{"signed":`+string(signed)+`}}`)
		invite := eventWith(t, v, TypeThirdPartyInvite, `{"public_keys":[`+strings.Join(keys, ",")+`]}`)
		equal(t, VerifyThirdPartyInvite(member, invite), want)
	}
}
