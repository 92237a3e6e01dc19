package rules

import (
	"errors"
	"math"
	"slices"

	"hearth/storage/matrix"
)

// Infinite is the power of creators where the room version privileges them. No
// level of such a room reaches it: levels are canonical JSON integers.
const Infinite = math.MaxInt64

// Power is a user's power level in a state, whether or not they are in the room.
func Power(v *matrix.Version, state AuthState, user matrix.UserID) int64 {
	var create *matrix.CreateContent
	if ev := state.Event(matrix.TypeCreate, ""); ev != nil {
		create = ev.Create()
	}
	return powerOf(v, create, levelsIn(state), user)
}

// unset is the power levels of a room without any: defaults only.
var unset = &matrix.PowerLevels{}

// levelsIn finds a state's power levels, unset if it has none. They were parsed
// at most once, with their event.
func levelsIn(state AuthState) *matrix.PowerLevels {
	ev := state.Event(matrix.TypePowerLevels, "")
	if ev == nil {
		return unset
	}
	levels, _ := ev.PowerLevels()
	return levels
}

// power is a user's power level in the state.
func (c *check) power(user matrix.UserID) int64 {
	return powerOf(c.version, c.create, c.levels, user)
}

// powerOf is a user's power level by the create event's content and the
// room's levels, which are unset if it has none.
func powerOf(v *matrix.Version, create *matrix.CreateContent, levels *matrix.PowerLevels, user matrix.UserID) int64 {
	if v.PrivilegedCreators || levels == unset {
		if create != nil && slices.Contains(create.Creators, user) {
			if v.PrivilegedCreators {
				return Infinite
			}
			return 100
		}
	}
	return levels.User(user)
}

func (c *check) inviteLevel() int64 { return c.levels.InviteLevel() }

// powerLevels is the rule of m.room.power_levels. power is the sender's.
func (c *check) powerLevels(power int64) error {
	next, err := c.ev.PowerLevels()
	if err != nil {
		return c.refuse(c.malformed(err))
	}
	if c.version.PrivilegedCreators {
		for _, creator := range c.create.Creators {
			if _, ok := next.Users[creator]; ok {
				return c.refuse(PowerCreator)
			}
		}
	}
	if c.levels == unset {
		return nil
	}
	if rule := changedProps(c.levels, next, power); rule != 0 {
		return c.refuse(rule)
	}
	for _, m := range [...][2]map[string]int64{
		{c.levels.Events, next.Events},
		{c.levels.Notifications, next.Notifications}, // empty before the version that has rules for it
	} {
		if rule := changedMap(m[0], m[1], power); rule != 0 {
			return c.refuse(rule)
		}
	}
	if rule := changedUsers(c.levels.Users, next.Users, power, c.sender); rule != 0 {
		return c.refuse(rule)
	}
	return nil
}

// malformed is the rule that a content breaks which did not parse.
//
// Up to room version 9 the rules name only users. A level elsewhere that is no
// number at all is refused there too: its event would have no meaning that
// servers agree about.
func (c *check) malformed(err error) Rule {
	var bad *matrix.LevelError
	switch {
	case !c.version.IntegerLevels, !errors.As(err, &bad), bad.Property == "users":
		return PowerUsers
	case bad.Property == "events", bad.Property == "notifications":
		return PowerMapNotInteger
	}
	return PowerNotInteger
}

func changedProps(old, next *matrix.PowerLevels, power int64) Rule {
	for _, p := range [...][2]matrix.Level{
		{old.UsersDefault, next.UsersDefault},
		{old.EventsDefault, next.EventsDefault},
		{old.StateDefault, next.StateDefault},
		{old.Ban, next.Ban},
		{old.Redact, next.Redact},
		{old.Kick, next.Kick},
		{old.Invite, next.Invite},
	} {
		switch was, is := p[0], p[1]; {
		case was == is:
		case was.Set && was.Value > power:
			return PowerPropCurrent
		case is.Set && is.Value > power:
			return PowerPropNew
		}
	}
	return 0
}

func changedMap(old, next map[string]int64, power int64) Rule {
	for key, was := range old {
		if is, ok := next[key]; was > power && (!ok || is != was) {
			return PowerMapCurrent
		}
	}
	for key, is := range next {
		if was, ok := old[key]; is > power && (!ok || is != was) {
			return PowerMapNew
		}
	}
	return 0
}

func changedUsers(old, next map[matrix.UserID]int64, power int64, sender matrix.UserID) Rule {
	for user, was := range old {
		if is, ok := next[user]; user != sender && was >= power && (!ok || is != was) {
			return PowerUserCurrent
		}
	}
	for user, is := range next {
		if was, ok := old[user]; is > power && (!ok || is != was) {
			return PowerUserNew
		}
	}
	return 0
}
