package room

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/rules"
	"hearth/storage/matrix"
)

// raise gives the new room the old one's power levels. Where these would not
// let the user set up the room, they have all power until it is.
func (u *upgrade) raise() error {
	ev := u.state.Event(matrix.TypePowerLevels, "")
	if ev == nil {
		return u.state.err
	}
	levels, err := ev.PowerLevels()
	if err != nil {
		return nil //nolint:nilerr // nothing that could be copied
	}
	users := u.newUsers(levels)
	u.levels = u.newLevels(levels, users)
	now := u.levels
	has, named := users[u.by]
	if !named {
		has = levels.UsersDefault.Or(0)
	}
	if need := u.highest(levels); !u.version.PrivilegedCreators && has < need {
		u.raised = true
		users[u.by] = need
		now = u.levels.over(object{})
		now.set("users", users)
	}
	return u.send(matrix.TypePowerLevels, "", now.json())
}

// lower takes from the user what they had for setting up the room.
func (u *upgrade) lower() error {
	if !u.raised {
		return nil
	}
	return u.send(matrix.TypePowerLevels, "", u.levels.json())
}

// highest is the level that is enough to set up the new room: for all types of
// events, and to ban whom the old room bans.
func (u *upgrade) highest(l *matrix.PowerLevels) int64 {
	top := max(l.StateDefault.Or(moderator), l.EventsDefault.Or(0), l.UsersDefault.Or(0), l.BanLevel(), l.KickLevel(),
		l.RedactLevel(), l.InviteLevel())
	for _, all := range []map[string]int64{l.Events, l.Notifications} {
		for _, n := range all {
			top = max(top, n)
		}
	}
	for user, n := range l.Users {
		if n >= top && u.state.membership(user) == matrix.MembershipBan {
			top = n + 1
		}
	}
	return min(top, matrix.MaxSafeInt)
}

// newUsers are the levels of users in the new room: those of the old one, but
// for creators. Where the new version gives these all power they have no level,
// and where only the old one did they have one that is enough for everything:
// nobody else may.
func (u *upgrade) newUsers(l *matrix.PowerLevels) map[matrix.UserID]int64 {
	users := levelMap(l.Users)
	if u.version.PrivilegedCreators {
		if create, err := createEvent(u.tx.Rx, u.room); err == nil && create.Event != nil {
			for _, c := range create.Create().Creators {
				delete(users, c)
			}
		}
		return users
	}
	if create := u.state.Event(matrix.TypeCreate, ""); create != nil && u.old.Version.PrivilegedCreators {
		for _, c := range create.Create().Creators {
			users[c] = max(administrator, u.highest(l))
		}
	}
	return users
}

// newLevels is the old room's levels in the form of the new version: integers.
func (u *upgrade) newLevels(l *matrix.PowerLevels, users map[matrix.UserID]int64) object {
	o := object{}
	for name, level := range map[string]matrix.Level{
		"users_default": l.UsersDefault, "events_default": l.EventsDefault, "state_default": l.StateDefault,
		"ban": l.Ban, "kick": l.Kick, "redact": l.Redact, "invite": l.Invite,
	} {
		if level.Set {
			o.set(name, bounded(level.Value))
		}
	}
	o.set("users", users)
	o.set("events", levelMap(l.Events))
	if ev := u.state.Event(matrix.TypePowerLevels, ""); ev != nil {
		if was, err := parseObject("power levels", ev.Content()); err == nil {
			copyLevels(o, was["notifications"])
		}
	}
	if tombstone, set := l.Events[typeTombstone]; u.version.PrivilegedCreators && (!set || tombstone <= l.StateDefault.Or(moderator)) {
		raiseTombstone(o)
	}
	return o
}

// copyLevels takes notifications over, which not every version reads.
func copyLevels(o object, notifications jsontext.Value) {
	var levels map[string]int64
	if len(notifications) > 0 && json.Unmarshal(notifications, &levels) == nil {
		o.set("notifications", levelMap(levels))
	}
}

// levelMap is a copy of levels within what canonical JSON can say.
func levelMap[K ~string](levels map[K]int64) map[K]int64 {
	out := make(map[K]int64, len(levels)+1)
	for k, n := range levels {
		out[k] = bounded(n)
	}
	return out
}

func bounded(n int64) int64 { return min(max(n, -matrix.MaxSafeInt), matrix.MaxSafeInt) }

// closeOld keeps those without power from writing to the old room and inviting
// to it, if the user may do that. Client-Server API, "Room Upgrades".
func (u *upgrade) closeOld() error {
	ev := u.state.Event(matrix.TypePowerLevels, "")
	if ev == nil {
		return u.state.err
	}
	levels, err := ev.PowerLevels()
	if err != nil {
		return nil //nolint:nilerr // nothing that could be raised
	}
	o, err := parseObject("power levels", ev.Content())
	if err != nil {
		return err
	}
	quiet := max(moderator, levels.UsersDefault.Or(0)+1)
	if levels.EventsDefault.Or(0) >= quiet && levels.InviteLevel() >= quiet {
		return nil
	}
	o.set("events_default", max(levels.EventsDefault.Or(0), quiet))
	o.set("invite", max(levels.InviteLevel(), quiet))
	return u.attempt(matrix.TypePowerLevels, o.json())
}

// attempt sends a state event to the old room, if the user may.
func (u *upgrade) attempt(typ string, content jsontext.Value) error {
	err := u.sendTo(u.old, typ, "", content)
	var told *matrix.Error
	if r := (*rules.Refusal)(nil); errors.As(err, &r) || errors.As(err, &told) && told.Code == matrix.BadJSON {
		return nil // refused before anything was stored
	}
	return err
}
