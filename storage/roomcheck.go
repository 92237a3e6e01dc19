package storage

import (
	"database/sql/driver"
	"fmt"
)

// roomRules are rules that hold of the tables of rooms, each as a query for
// what breaks it: a room, and a text that says where in it. A room that is
// being purged may break most of them.
var roomRules = []struct{ rule, broken string }{
	{"a member of the current state has a membership of the same event and kind", `
		SELECT c.room, c.state_key FROM current_state c LEFT JOIN events e ON e.num = c.event
		LEFT JOIN memberships m ON m.room = c.room AND m.user_id = c.state_key
		WHERE c.type = 'm.room.member' AND (m.event IS NOT c.event OR e.room IS NOT c.room
		OR m.membership IS NOT json_extract(CAST(e.json AS TEXT), '$.content.membership')
		OR ifnull(m.sender, m.user_id) IS NOT json_extract(CAST(e.json AS TEXT), '$.sender'))`},
	{"a membership has its entry in the current state, or has left without one", `
		SELECT m.room, m.user_id FROM memberships m
		LEFT JOIN current_state c ON c.room = m.room AND c.type = 'm.room.member' AND c.state_key = m.user_id
		WHERE ifnull(c.event, 0) <> m.event OR m.event = 0 AND m.membership <> 'leave' OR m.since > m.pos
		OR m.forgotten = 1 AND m.membership NOT IN ('leave', 'ban')`},
	{"members are counted", `
		SELECT num, room_id FROM rooms r
		WHERE joined <> (SELECT count(*) FROM memberships WHERE room = r.num AND membership = 'join')
		OR invited <> (SELECT count(*) FROM memberships WHERE room = r.num AND membership = 'invite')`},
	{"joined servers are counted", `
		SELECT room, server FROM (
		SELECT room, substr(user_id, instr(user_id, ':') + 1) AS server, 1 AS n FROM memberships WHERE membership = 'join'
		UNION ALL SELECT room, server, -members FROM joined_servers) GROUP BY room, server HAVING sum(n) <> 0`},
	{"a forward extremity is accepted and told, and no told event comes after it", `
		SELECT x.room, ifnull(e.event_id, x.event) FROM extremities x LEFT JOIN events e ON e.num = x.event
		WHERE e.room IS NOT x.room OR e.pos = 0 OR EXISTS (
		SELECT 1 FROM event_edges d JOIN events c ON c.num = d.child WHERE d.parent = x.event AND c.pos <> 0)`},
	{"the latest position of a room is that of its last told event or change of state", `
		SELECT num, room_id FROM rooms r WHERE latest_pos <> max(0,
		ifnull((SELECT max(pos) FROM events WHERE room = r.num AND pos <> 0), 0),
		ifnull((SELECT max(pos) FROM state_changes WHERE room = r.num), 0))`},
	{"the last change of an entry is what the current state has", `
		SELECT s.room, s.type || ' ' || s.state_key FROM (
		SELECT room, type, state_key, event, max(pos) FROM state_changes GROUP BY room, type, state_key) s
		LEFT JOIN current_state c USING (room, type, state_key) WHERE ifnull(c.event, 0) <> s.event`},
	{"an entry of the current state was a change", `
		SELECT c.room, c.type || ' ' || c.state_key FROM current_state c
		LEFT JOIN (SELECT DISTINCT room, type, state_key FROM state_changes) s USING (room, type, state_key) WHERE s.room IS NULL`},
	{"the history of a room's states ends with the current one", `
		SELECT num, room_id FROM rooms r WHERE state <>
		ifnull((SELECT state FROM room_states WHERE room = r.num ORDER BY pos DESC LIMIT 1), 0)`},
	{"what is told is in the graph, accepted, and has a state", `
		SELECT room, event_id FROM events WHERE pos <> 0 AND (outlier = 1 OR standing <> 0 OR soft_failed = 1)
		OR pos > 0 AND state_before = 0 AND json_extract(CAST(json AS TEXT), '$.type') <> 'm.room.create'`},
	{"the top of a live event is the greatest depth so far", `
		SELECT room, event_id FROM (SELECT room, event_id, top, max(depth) OVER (PARTITION BY room ORDER BY pos) AS deepest
		FROM events WHERE pos > 0) WHERE top <> deepest
		UNION ALL SELECT room, event_id FROM events WHERE pos <= 0 AND top <> 0`},
	{"an edge connects events of one room's graph", `
		SELECT ifnull(p.room, c.room), d.parent || ' ' || d.child FROM event_edges d
		LEFT JOIN events p ON p.num = d.parent LEFT JOIN events c ON c.num = d.child
		WHERE p.room IS NOT c.room OR p.num IS NULL OR p.outlier = 1 OR c.outlier = 1`},
	{"a missing parent is missing, and its child is not", `
		SELECT m.room, m.event_id FROM missing_parents m LEFT JOIN events c ON c.num = m.child
		LEFT JOIN events p ON p.event_id = m.event_id AND p.room = m.room AND p.outlier = 0
		WHERE p.num IS NOT NULL OR c.room IS NOT m.room OR c.outlier = 1`},
	{"an event is redacted by one of its room", `
		SELECT e.room, e.event_id FROM events e LEFT JOIN events r ON r.num = e.redacted_by
		WHERE e.redacted_by <> 0 AND r.room IS NOT e.room OR e.redacted_by = 0 AND e.redacted_clock IS NOT NULL`},
	{"what belongs to a room or an event goes with it", `
		SELECT * FROM (SELECT room, 'events' FROM events UNION ALL SELECT room, 'current_state' FROM current_state
		UNION ALL SELECT room, 'memberships' FROM memberships UNION ALL SELECT room, 'joined_servers' FROM joined_servers
		UNION ALL SELECT room, 'aliases' FROM aliases UNION ALL SELECT room, 'extremities' FROM extremities
		UNION ALL SELECT room, 'redactions' FROM redactions UNION ALL SELECT room, 'state_changes' FROM state_changes
		UNION ALL SELECT room, 'room_states' FROM room_states) WHERE room NOT IN (SELECT num FROM rooms)
		UNION ALL SELECT 0, 'event_senders' FROM event_senders WHERE event NOT IN (SELECT num FROM events)`},
}

// checkRooms finds where the tables of rooms disagree with each other.
func (c *conn) checkRooms(note func(string, ...any)) error {
	for _, r := range roomRules {
		query := `WITH broken (room, at) AS (` + r.broken + `) SELECT ifnull(room, 0), at FROM broken
			WHERE ifnull(room, 0) NOT IN (SELECT num FROM rooms WHERE purging = 1) LIMIT 5`
		err := c.each(query, func(v []driver.Value) error {
			note("room %v: it does not hold that %s: %v", v[0], r.rule, v[1])
			return nil
		})
		if err != nil {
			return fmt.Errorf("check that %s: %w", r.rule, err)
		}
	}
	return c.checkCurrentState(note)
}

// checkCurrentState compares the current state of every room with its snapshot.
func (c *conn) checkCurrentState(note func(string, ...any)) error {
	rooms := map[RoomNum]StateNum{}
	err := c.each(`SELECT num, state FROM rooms WHERE purging = 0`, func(v []driver.Value) error {
		rooms[RoomNum(v[0].(int64))] = StateNum(v[1].(int64))
		return nil
	})
	if err != nil {
		return err
	}
	rx := &Rx{conn: c}
	for room, snapshot := range rooms {
		want, err := rx.State(snapshot)
		if err != nil {
			note("room %d: %v", room, err)
			continue
		}
		have, err := rx.CurrentStateKeys(room)
		if err != nil {
			return err
		}
		entries := map[StateKeyed]int{}
		for _, s := range want {
			entries[s]++
		}
		for _, s := range have {
			entries[s]--
		}
		for s, n := range entries {
			if n != 0 {
				note("room %d: the current state and its snapshot differ in %s %q", room, s.Type, s.StateKey)
			}
		}
	}
	return nil
}
