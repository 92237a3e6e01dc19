package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

var (
	roomState    = stmt(`SELECT state FROM rooms WHERE num = ?`)
	setRoomState = stmt(`UPDATE rooms SET state = ?2, latest_pos = max(latest_pos, ?3), joined = joined + ?4,
		invited = invited + ?5 WHERE num = ?1`)
	addRoomState = stmt(`INSERT INTO room_states (room, pos, state) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET state = excluded.state`)
	setCurrent    = stmt(`INSERT INTO current_state (room, type, state_key, event) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET event = excluded.event`)
	removeCurrent = stmt(`DELETE FROM current_state WHERE room = ? AND type = ? AND state_key = ?`)
	addChange     = stmt(`INSERT INTO state_changes (room, pos, type, state_key, event, was) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET event = excluded.event`)
)

// SetCurrentState makes a snapshot the room's current state at a position of
// this unit: the event's that caused it, or one of its own. It is the only door
// by which the current state, memberships and their counts move. It returns
// what changed, by key.
func (tx *Tx) SetCurrentState(room Room, next StateNum, pos int64) ([]StateChange, error) {
	changes, err := tx.setCurrentState(room, next, pos)
	if err != nil {
		return nil, fmt.Errorf("set current state: %w", err)
	}
	return changes, nil
}

func (tx *Tx) setCurrentState(room Room, next StateNum, pos int64) ([]StateChange, error) {
	if pos <= 0 {
		return nil, fmt.Errorf("at position %d", pos)
	}
	var old StateNum
	if err := tx.row(roomState, []any{int64(room.Num)}, (*int64)(&old)); err != nil {
		return nil, err
	}
	if old == next {
		return nil, nil
	}
	diff, err := tx.StateDiff(old, next)
	if err != nil {
		return nil, err
	}
	m := memberMove{tx: tx, room: room.Num, pos: pos}
	changes := make([]StateChange, 0, len(diff))
	for _, d := range diff {
		c := StateChange{Type: d.Type, StateKey: d.StateKey, Event: d.Event, Pos: pos}
		if c.Was, err = tx.moveEntry(room.Num, d); err != nil {
			return nil, err
		}
		if _, err := tx.exec(addChange, int64(room.Num), pos, c.Type, c.StateKey, int64(c.Event), int64(c.Was)); err != nil {
			return nil, err
		}
		if c.Type == matrix.TypeMember {
			if err := m.move(c); err != nil {
				return nil, fmt.Errorf("member: %w", err)
			}
		}
		changes = append(changes, c)
	}
	if _, err := tx.exec(addRoomState, int64(room.Num), pos, int64(next)); err != nil {
		return nil, err
	}
	if _, err := tx.exec(setRoomState, int64(room.Num), int64(next), pos, m.joined, m.invited); err != nil {
		return nil, err
	}
	return changes, m.countServers()
}

// moveEntry changes one entry and returns the event it had.
func (tx *Tx) moveEntry(room RoomNum, to StateKeyed) (was EventNum, err error) {
	was, err = tx.CurrentStateNum(room, to.Type, to.StateKey)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	if to.Event == 0 {
		_, err = tx.exec(removeCurrent, int64(room), to.Type, to.StateKey)
	} else {
		_, err = tx.exec(setCurrent, int64(room), to.Type, to.StateKey, int64(to.Event))
	}
	return was, err
}

var (
	memberRow = stmt(`SELECT membership, since FROM memberships WHERE room = ? AND user_id = ?`)
	setMember = stmt(`INSERT INTO memberships (room, user_id, membership, event, sender, pos, since, local)
		VALUES (?, ?, ?, ?, nullif(?, ?2), ?, ?, ?) ON CONFLICT DO UPDATE SET membership = excluded.membership,
		event = excluded.event, sender = excluded.sender, pos = excluded.pos, since = excluded.since,
		forgotten = forgotten AND excluded.membership IN ('leave', 'ban')`)
)

// memberMove moves memberships along with the current state, and counts.
type memberMove struct {
	tx              *Tx
	room            RoomNum
	pos             int64
	joined, invited int64                       // how many more there are
	servers         map[matrix.ServerName]int64 // how many more are joined
}

func (m *memberMove) move(c StateChange) error {
	user := matrix.UserID(c.StateKey)
	now, sender := matrix.MembershipLeave, user
	if c.Event != 0 {
		ev, err := m.tx.EventByNum(c.Event)
		if err != nil {
			return err
		}
		now, sender = ev.Membership(), ev.Sender()
	}
	var was string
	var since int64
	err := m.tx.row(memberRow, []any{int64(m.room), string(user)}, &was, &since)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if now != was {
		since = m.pos
		m.count(was, -1, user)
		m.count(now, 1, user)
	}
	_, err = m.tx.exec(setMember, int64(m.room), string(user), now, int64(c.Event), string(sender), m.pos, since, m.tx.localTo(user))
	return err
}

// count adds to the counts of a membership.
func (m *memberMove) count(membership string, n int64, user matrix.UserID) {
	switch membership {
	case matrix.MembershipJoin:
		m.joined += n
		if m.servers == nil {
			m.servers = map[matrix.ServerName]int64{}
		}
		m.servers[user.Server()] += n
	case matrix.MembershipInvite:
		m.invited += n
	}
}

// countServers stores the counts of servers.
func (m *memberMove) countServers() error {
	for server, n := range m.servers {
		if n == 0 {
			continue
		}
		if err := m.tx.countJoined(m.room, server, n); err != nil {
			return err
		}
	}
	return nil
}
