package clientapi

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

type createRoomRequest struct {
	Visibility   string             `json:"visibility"`
	AliasName    string             `json:"room_alias_name"`
	Name         string             `json:"name"`
	Topic        string             `json:"topic"`
	Invite       []matrix.UserID    `json:"invite"`
	Invite3PID   []invite3PID       `json:"invite_3pid"`
	Version      matrix.RoomVersion `json:"room_version"`
	Creation     jsontext.Value     `json:"creation_content"`
	InitialState []initialState     `json:"initial_state"`
	Preset       string             `json:"preset"`
	Direct       bool               `json:"is_direct"`
	PowerLevels  jsontext.Value     `json:"power_level_content_override"`
}

// invite3PID names a person by an address.
type invite3PID struct {
	Medium  string `json:"medium"`
	Address string `json:"address"`
}

type initialState struct {
	Type    string         `json:"type"`
	Key     string         `json:"state_key"`
	Content jsontext.Value `json:"content"`
}

// Validate implements web.Validator.
func (r *createRoomRequest) Validate() error {
	if r.Visibility == "" {
		r.Visibility = listedPrivate
	}
	if err := checkListing(r.Visibility); err != nil {
		return err
	}
	for what, v := range map[string]*jsontext.Value{"creation_content": &r.Creation, "power_level_content_override": &r.PowerLevels} {
		if v.Kind() == 'n' {
			*v = nil
		}
		if len(*v) > 0 && v.Kind() != '{' {
			return matrix.Errorf(matrix.BadJSON, "%s is not an object", what)
		}
	}
	if len(r.Invite3PID) > 0 {
		return errNoIdentityServer
	}
	for _, s := range r.InitialState {
		if err := s.check(); err != nil {
			return err
		}
	}
	return r.checkPreset()
}

func (r *createRoomRequest) checkPreset() error {
	switch r.Preset {
	case "":
		if r.Preset = room.PresetPrivate; r.Visibility == listedPublic {
			r.Preset = room.PresetPublic
		}
	case room.PresetPrivate, room.PresetPublic, room.PresetTrusted:
	default:
		return matrix.Errorf(matrix.InvalidParam, "there is no such preset")
	}
	return nil
}

func (s initialState) check() error {
	switch {
	case s.Type == "":
		return matrix.Errorf(matrix.MissingParam, "a type is missing in initial_state")
	case len(s.Content) == 0:
		return matrix.Errorf(matrix.MissingParam, "the content of %.255q is missing in initial_state", s.Type)
	case s.Content.Kind() != '{':
		return matrix.Errorf(matrix.BadJSON, "the content of %.255q is not an object", s.Type)
	case s.Type == matrix.TypeCreate:
		return matrix.Errorf(matrix.InvalidRoomState, "the room is created by creation_content")
	}
	return nil
}

// postCreateRoom serves POST /_matrix/client/v3/createRoom.
// Client-Server API, "Creation".
func (a *API) postCreateRoom(ctx context.Context, c *web.Call, in createRoomRequest) (out theRoom, err error) {
	if err := a.checkSize(c, in); err != nil {
		return out, err
	}
	creation := room.Creation{
		Creator: c.User, Version: in.Version, Preset: in.Preset, Public: in.Visibility == listedPublic,
		Content: in.Creation, PowerLevels: in.PowerLevels, Name: in.Name, Topic: in.Topic,
		Invites: in.Invite, IsDirect: in.Direct,
	}
	for _, s := range in.InitialState {
		creation.InitialState = append(creation.InitialState, room.StateDraft{Type: s.Type, StateKey: s.Key, Content: s.Content})
	}
	if in.AliasName != "" {
		if creation.Alias, err = a.localAlias(in.AliasName); err != nil {
			return out, err
		}
	}
	if err := checkFirstAliases(creation); err != nil {
		return out, err
	}
	err = a.change(ctx, c, func(tx *storage.Tx) error {
		for _, user := range in.Invite {
			if err := a.mayInvite(tx.Rx, user); err != nil {
				return err
			}
		}
		made, err := a.Rooms.Create(tx, creation)
		out.ID = made.ID
		return err
	})
	return out, err
}

// checkSize bounds what one request may ask for: all of it is one unit, which
// others wait for. Each event counts against the rate limit as if it were sent.
func (a *API) checkSize(c *web.Call, in createRoomRequest) error {
	limits := a.Options.Rooms
	if most := limits.MaxInvites; most > 0 && len(in.Invite) > most {
		return matrix.Errorf(matrix.TooLarge, "a room is made with at most %d invites; invite the others when it is there", most)
	}
	if most := limits.MaxInitialState; most > 0 && len(in.InitialState) > most {
		return matrix.Errorf(matrix.TooLarge, "a room is made with at most %d events of initial_state; send the others when it is there", most)
	}
	return c.Charge(len(in.Invite) + len(in.InitialState))
}

// localAlias is the alias of this server with a local part that a client chose.
func (a *API) localAlias(local string) (matrix.RoomAlias, error) {
	alias, err := matrix.ParseRoomAlias("#" + local + ":" + string(a.Store.ServerName()))
	if err != nil || strings.Contains(local, ":") {
		return "", matrix.Errorf(matrix.InvalidParam, "room_alias_name cannot be the local part of an alias")
	}
	return alias, nil
}

// checkFirstAliases checks that the names in the initial state point to the
// room that is made: only the alias that is made with it can.
func checkFirstAliases(c room.Creation) error {
	for _, s := range c.InitialState {
		if s.Type != typeCanonicalAlias || s.StateKey != "" {
			continue
		}
		var named canonicalAlias
		if err := json.Unmarshal(s.Content, &named); err != nil {
			return errAliasForm
		}
		for _, text := range named.all() {
			if text != string(c.Alias) {
				return matrix.Errorf(matrix.BadAlias, "the alias %s cannot point to the room", text)
			}
		}
	}
	return nil
}
