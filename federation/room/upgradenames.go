package room

import (
	"slices"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

// moveNames gives the old room's names on this server to the new one, and
// tells both rooms' members by m.room.canonical_alias.
func (u *upgrade) moveNames() error {
	names, err := u.tx.AliasesOf(u.old.Num)
	if err != nil {
		return err
	}
	var moved []matrix.RoomAlias
	for _, a := range names {
		if err := u.tx.DeleteAlias(a.Alias); err != nil {
			return err
		}
		if err := u.tx.AddAlias(a.Alias, u.room.Num, a.Creator); err != nil {
			return err
		}
		moved = append(moved, a.Alias)
	}
	was := u.state.Event(typeCanonicalAlias, "")
	if was == nil || len(moved) == 0 {
		return u.state.err
	}
	published, err := parseObject("names", was.Content())
	if err != nil {
		return err
	}
	goes := func(a matrix.RoomAlias) bool { return slices.Contains(moved, a) }
	stays := func(a matrix.RoomAlias) bool { return !goes(a) }
	if now := pick(published, goes); len(now) > 0 {
		if err := u.send(typeCanonicalAlias, "", now.json()); err != nil {
			return err
		}
		return u.attempt(typeCanonicalAlias, pick(published, stays).json())
	}
	return nil
}

// pick is the content of m.room.canonical_alias with some of its names.
func pick(published object, want func(matrix.RoomAlias) bool) object {
	o := object{}
	if main := matrix.RoomAlias(published.text("alias")); main != "" && want(main) {
		o.set("alias", main)
	}
	var all, some []matrix.RoomAlias
	if v := published["alt_aliases"]; len(v) > 0 && json.Unmarshal(v, &all) == nil {
		for _, a := range all {
			if want(a) {
				some = append(some, a)
			}
		}
	}
	if len(some) > 0 {
		o.set("alt_aliases", some)
	}
	return o
}
