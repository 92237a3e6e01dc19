package room

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// Power levels of new rooms. A moderator has 50, an administrator 100.
const (
	moderator     = 50
	administrator = 100
	tombstoneV12  = 150 // only creators, unless somebody raises a user this far
)

// defaultLevels is the content of m.room.power_levels in a new room, before
// the client's override. Client-Server API, "POST /createRoom".
func defaultLevels(c *Creation, v *matrix.Version) object {
	users := map[matrix.UserID]int64{}
	if !v.PrivilegedCreators {
		users[c.Creator] = administrator
		if c.Preset == PresetTrusted {
			for _, u := range c.Invites {
				users[u] = administrator
			}
		}
	}
	events := map[string]int64{
		typeName:                     moderator,
		typeAvatar:                   moderator,
		typeCanonicalAlias:           moderator,
		typeEncryption:               administrator,
		typeTombstone:                administrator,
		matrix.TypePowerLevels:       administrator,
		matrix.TypeHistoryVisibility: administrator,
		matrix.TypeServerACL:         administrator,
	}
	invite := int64(0)
	if c.Preset == PresetPublic {
		invite = moderator
	}
	levels := object{}
	levels.set("users", users)
	levels.set("users_default", 0)
	levels.set("events", events)
	levels.set("events_default", 0)
	levels.set("state_default", moderator)
	levels.set("ban", moderator)
	levels.set("kick", moderator)
	levels.set("redact", moderator)
	levels.set("invite", invite)
	return levels
}

// newLevels is the content of m.room.power_levels in a new room.
func newLevels(c *Creation, v *matrix.Version) (jsontext.Value, error) {
	override, err := parseObject("power_level_content_override", c.PowerLevels)
	if err != nil {
		return nil, err
	}
	levels := defaultLevels(c, v).over(override)
	if _, chosen := override["events"]; v.PrivilegedCreators && !chosen {
		raiseTombstone(levels)
	}
	return levels.json(), checkLevels(levels.json())
}

// raiseTombstone has tombstones need more than state_default, as rooms with
// privileged creators must say from the start. A level that is high enough
// already stays.
func raiseTombstone(levels object) {
	events := map[string]jsontext.Value{}
	if v := levels["events"]; len(v) > 0 && json.Unmarshal(v, &events) != nil {
		return // not an object: the rules will refuse it
	}
	var stateDefault int64 = moderator
	if v := levels["state_default"]; len(v) > 0 && json.Unmarshal(v, &stateDefault) != nil {
		return
	}
	object(events).set(typeTombstone, min(max(tombstoneV12, stateDefault+1), matrix.MaxSafeInt))
	levels.set("events", events)
}

// checkLevels refuses levels that are not integers. Old room versions would
// take them as strings, but servers should make no more of these. Server-Server
// API, "Definitions".
func checkLevels(content jsontext.Value) error {
	var levels struct {
		UsersDefault  jsontext.Value            `json:"users_default"`
		EventsDefault jsontext.Value            `json:"events_default"`
		StateDefault  jsontext.Value            `json:"state_default"`
		Ban           jsontext.Value            `json:"ban"`
		Kick          jsontext.Value            `json:"kick"`
		Redact        jsontext.Value            `json:"redact"`
		Invite        jsontext.Value            `json:"invite"`
		Users         map[string]jsontext.Value `json:"users"`
		Events        map[string]jsontext.Value `json:"events"`
		Notifications map[string]jsontext.Value `json:"notifications"`
	}
	if err := json.Unmarshal(content, &levels); err != nil {
		return matrix.Errorf(matrix.BadJSON, "power levels: %v", err)
	}
	one := func(name string, v jsontext.Value) error {
		var n int64
		if len(v) > 0 && (v.Kind() != '0' || json.Unmarshal(v, &n) != nil) {
			return matrix.Errorf(matrix.BadJSON, "power levels: %s is not an integer", name)
		}
		return nil
	}
	single := map[string]jsontext.Value{
		"users_default": levels.UsersDefault, "events_default": levels.EventsDefault,
		"state_default": levels.StateDefault, "ban": levels.Ban, "kick": levels.Kick,
		"redact": levels.Redact, "invite": levels.Invite,
	}
	for _, all := range []map[string]jsontext.Value{single, levels.Users, levels.Events, levels.Notifications} {
		for name, v := range all {
			if err := one(name, v); err != nil {
				return err
			}
		}
	}
	return nil
}
