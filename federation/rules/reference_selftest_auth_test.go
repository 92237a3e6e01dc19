package rules_test

import (
	"fmt"
	"testing"
)

const (
	alice, bob, carol = "@alice:one.test", "@bob:two.test:8448", "@carol:three.test"
)

// TestReferenceAuth checks the reference against verdicts worked out by hand, each
// in a room where alice has 100, bob 50 and carol, by default, nothing.
func TestReferenceAuth(t *testing.T) {
	for _, c := range []struct {
		about    string
		versions [2]int
		rule     string // join_rule
		members  string // memberships of alice, bob, carol: j i b k l or -
		sender   string
		typ, key string
		content  string
		want     map[int]string // from this version on
	}{
		{"public join", [2]int{1, 12}, "public", "jj-", carol, "m.room.member", carol, `{"membership":"join"}`, nil},
		{"join of another", [2]int{1, 12}, "public", "jj-", carol, "m.room.member", bob, `{"membership":"join"}`,
			map[int]string{1: "5.2.2", 6: "4.2.2", 8: "4.3.2", 12: "5.3.2"}},
		{"banned", [2]int{1, 12}, "public", "jjb", carol, "m.room.member", carol, `{"membership":"join"}`,
			map[int]string{1: "5.2.3", 6: "4.2.3", 8: "4.3.3", 12: "5.3.3"}},
		{"invited", [2]int{1, 12}, "invite", "jji", carol, "m.room.member", carol, `{"membership":"join"}`, nil},
		{"uninvited", [2]int{1, 12}, "invite", "jj-", carol, "m.room.member", carol, `{"membership":"join"}`,
			map[int]string{1: "5.2.6", 6: "4.2.6", 8: "4.3.7", 12: "5.3.7"}},
		{"invited where one knocks", [2]int{1, 12}, "knock", "jji", carol, "m.room.member", carol, `{"membership":"join"}`,
			map[int]string{1: "5.2.6", 6: "4.2.6", 7: ""}},
		{"restricted, no via", [2]int{1, 12}, "restricted", "jj-", carol, "m.room.member", carol, `{"membership":"join"}`,
			map[int]string{1: "5.2.6", 6: "4.2.6", 8: "4.3.5.2", 12: "5.3.5.2"}},
		{"restricted, not signed", [2]int{1, 12}, "restricted", "jj-", carol, "m.room.member", carol,
			`{"membership":"join","join_authorised_via_users_server":"@alice:one.test"}`,
			map[int]string{1: "5.2.6", 6: "4.2.6", 8: "4.2.1", 12: "5.2.1"}},
		{"invite", [2]int{1, 12}, "invite", "jj-", bob, "m.room.member", carol, `{"membership":"invite"}`, nil},
		{"invite by an outsider", [2]int{1, 12}, "invite", "jl-", bob, "m.room.member", carol, `{"membership":"invite"}`,
			map[int]string{1: "5.3.2", 6: "4.3.2", 8: "4.4.2", 12: "5.4.2"}},
		{"invite of a banned", [2]int{1, 12}, "invite", "jjb", bob, "m.room.member", carol, `{"membership":"invite"}`,
			map[int]string{1: "5.3.3", 6: "4.3.3", 8: "4.4.3", 12: "5.4.3"}},
		{"leave", [2]int{1, 12}, "invite", "jji", carol, "m.room.member", carol, `{"membership":"leave"}`, nil},
		{"leave outside", [2]int{1, 12}, "invite", "jjl", carol, "m.room.member", carol, `{"membership":"leave"}`,
			map[int]string{1: "5.4.1", 6: "4.4.1", 8: "4.5.1", 12: "5.5.1"}},
		{"withdraw a knock", [2]int{1, 12}, "invite", "jjk", carol, "m.room.member", carol, `{"membership":"leave"}`,
			map[int]string{1: "5.4.1", 6: "4.4.1", 7: ""}},
		{"kick", [2]int{1, 12}, "invite", "jjj", bob, "m.room.member", carol, `{"membership":"leave"}`, nil},
		{"kick of a stronger", [2]int{1, 12}, "invite", "jjj", bob, "m.room.member", alice, `{"membership":"leave"}`,
			map[int]string{1: "5.4.5", 6: "4.4.5", 8: "4.5.5", 12: "5.5.5"}},
		{"unban", [2]int{1, 12}, "invite", "jjb", bob, "m.room.member", carol, `{"membership":"leave"}`,
			map[int]string{1: "5.4.3", 6: "4.4.3", 8: "4.5.3", 12: "5.5.3"}},
		{"ban", [2]int{1, 12}, "invite", "jjj", alice, "m.room.member", carol, `{"membership":"ban"}`, nil},
		{"ban without the level", [2]int{1, 12}, "invite", "jjj", bob, "m.room.member", carol, `{"membership":"ban"}`,
			map[int]string{1: "5.5.3", 6: "4.5.3", 8: "4.6.3", 12: "5.6.3"}},
		{"knock", [2]int{1, 12}, "knock", "jj-", carol, "m.room.member", carol, `{"membership":"knock"}`,
			map[int]string{1: "5.6", 6: "4.6", 7: ""}},
		{"knock restricted", [2]int{7, 12}, "knock_restricted", "jj-", carol, "m.room.member", carol, `{"membership":"knock"}`,
			map[int]string{7: "4.6.1", 8: "4.7.1", 10: ""}},
		{"no membership", [2]int{1, 12}, "public", "jj-", carol, "m.room.member", carol, `{}`,
			map[int]string{1: "5.1", 6: "4.1", 12: "5.1"}},
		{"topic", [2]int{1, 12}, "public", "jjj", bob, "m.room.topic", "", `{}`, nil},
		{"topic without the level", [2]int{1, 12}, "public", "jjj", carol, "m.room.topic", "", `{}`,
			map[int]string{1: "8", 6: "7", 12: "8"}},
		{"message from outside", [2]int{1, 12}, "public", "jj-", carol, "m.room.message", "-", `{}`,
			map[int]string{1: "6", 6: "5", 12: "6"}},
		{"state of another user", [2]int{1, 12}, "public", "jjj", bob, "x", alice, `{}`,
			map[int]string{1: "9", 6: "8", 12: "9"}},
		{"aliases from outside", [2]int{1, 12}, "public", "jj-", carol, "m.room.aliases", "three.test", `{}`,
			map[int]string{1: "", 6: "5", 12: "6"}},
		{"equal raises", [2]int{1, 12}, "public", "jjj", bob, "m.room.power_levels", "",
			`{"ban":60,"users":{"@bob:two.test:8448":50,"@carol:three.test":50,"@alice:one.test":100},"events":{"m.room.power_levels":50}}`,
			map[int]string{12: "10.4"}},
		{"raises above oneself", [2]int{1, 11}, "public", "jjj", bob, "m.room.power_levels", "",
			`{"ban":60,"users":{"@bob:two.test:8448":51,"@alice:one.test":100},"events":{"m.room.power_levels":50}}`,
			map[int]string{1: "10.7.1", 6: "9.7.1", 10: "9.9.1"}},
		{"lowers a stronger", [2]int{1, 11}, "public", "jjj", bob, "m.room.power_levels", "",
			`{"ban":60,"users":{"@bob:two.test:8448":50,"@alice:one.test":9},"events":{"m.room.power_levels":50}}`,
			map[int]string{1: "10.6.1", 6: "9.6.1", 10: "9.8.1"}},
		{"changes a level above oneself", [2]int{1, 11}, "public", "jjj", bob, "m.room.power_levels", "",
			`{"ban":50,"users":{"@bob:two.test:8448":50,"@alice:one.test":100},"events":{"m.room.power_levels":50}}`,
			map[int]string{1: "10.3.1", 6: "9.3.1", 10: "9.5.1"}},
		{"levels as strings", [2]int{1, 11}, "public", "jjj", bob, "m.room.power_levels", "",
			`{"ban":"60","users":{"@bob:two.test:8448":50,"@alice:one.test":100},"events":{"m.room.power_levels":50}}`,
			map[int]string{10: "9.1"}},
		{"notifications above oneself", [2]int{1, 11}, "public", "jjj", bob, "m.room.power_levels", "",
			`{"ban":60,"users":{"@bob:two.test:8448":50,"@alice:one.test":100},"events":{"m.room.power_levels":50},"notifications":{"room":51}}`,
			map[int]string{6: "9.5.1", 10: "9.7.1"}},
	} {
		for v := c.versions[0]; v <= c.versions[1]; v++ {
			t.Run(fmt.Sprint(c.about, " v", v), func(t *testing.T) {
				h := newHand(t, v)
				state := h.smallRoom(c.rule, c.members)
				e := h.event(c.sender, c.typ, c.key, c.content, []*refEvent{state[refKey{"m.room.join_rules", ""}]}, nil)
				var want string
				for from := 1; from <= v; from++ {
					if w, ok := c.want[from]; ok {
						want = w
					}
				}
				if got := h.ruleState(e, state); got != want {
					t.Errorf("refused by %q, want %q", got, want)
				}
			})
		}
	}
}

func (h *hand) smallRoom(rule, members string) refState {
	create := h.event(alice, "m.room.create", "", fmt.Sprintf(`{"creator":%q,"room_version":"%d"}`, alice, h.version), nil, nil)
	levels := `{"ban":60,"users":{"@bob:two.test:8448":50,"@alice:one.test":100},"events":{"m.room.power_levels":50}}`
	state := states(create,
		h.event(alice, "m.room.power_levels", "", levels, nil, nil),
		h.event(alice, "m.room.join_rules", "", fmt.Sprintf(`{"join_rule":%q}`, rule), nil, nil))
	for i, user := range []string{alice, bob, carol} {
		m := map[byte]string{'j': "join", 'i': "invite", 'b': "ban", 'k': "knock", 'l': "leave"}[members[i]]
		if m != "" {
			e := h.event(alice, "m.room.member", user, fmt.Sprintf(`{"membership":%q}`, m), nil, nil)
			state[e.key()] = e
		}
	}
	return state
}
