package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

// Alias is a name of a room on this server.
type Alias struct {
	Alias   matrix.RoomAlias
	Room    RoomNum
	RoomID  matrix.RoomID
	Creator matrix.UserID
}

var insertAlias = stmt(`INSERT INTO aliases (alias, room, creator, created_ms) VALUES (?, ?, ?, ?)`)

// AddAlias gives a room a name. One that is taken is [ErrConflict].
func (tx *Tx) AddAlias(alias matrix.RoomAlias, room RoomNum, creator matrix.UserID) error {
	if _, err := tx.exec(insertAlias, string(alias), int64(room), string(creator), tx.Now.UnixMilli()); err != nil {
		return fmt.Errorf("add alias: %w", err)
	}
	return nil
}

var deleteAlias = stmt(`DELETE FROM aliases WHERE alias = ?`)

// DeleteAlias takes a name from its room; [ErrNotFound] where it is none's.
func (tx *Tx) DeleteAlias(alias matrix.RoomAlias) error {
	return tx.mustChange("delete alias", deleteAlias, string(alias))
}

const aliasColumns = `SELECT a.alias, a.room, r.room_id, a.creator FROM aliases a JOIN rooms r ON r.num = a.room `

var (
	aliasByName = stmt(aliasColumns + `WHERE a.alias = ? AND r.purging = 0`)
	aliasesOf   = stmt(aliasColumns + `WHERE a.room = ? ORDER BY a.alias`)
)

func (a *Alias) fields() []any {
	return []any{(*string)(&a.Alias), (*int64)(&a.Room), (*string)(&a.RoomID), (*string)(&a.Creator)}
}

// Alias finds the room that has the name.
func (rx *Rx) Alias(alias matrix.RoomAlias) (a Alias, err error) {
	if err := rx.row(aliasByName, []any{string(alias)}, a.fields()...); err != nil {
		return Alias{}, fmt.Errorf("alias: %w", err)
	}
	return a, nil
}

var countAliases = stmt(`SELECT count(*) FROM aliases WHERE room = ?`)

// CountAliases is how many names a room has on this server.
func (rx *Rx) CountAliases(room RoomNum) (n int64, err error) {
	if err := rx.row(countAliases, []any{int64(room)}, &n); err != nil {
		return 0, fmt.Errorf("count aliases: %w", err)
	}
	return n, nil
}

// AliasesOf lists a room's names on this server, sorted.
func (rx *Rx) AliasesOf(room RoomNum) ([]Alias, error) {
	rows, err := rx.query(aliasesOf, int64(room))
	if err != nil {
		return nil, fmt.Errorf("aliases of room: %w", err)
	}
	defer rows.Close()
	var list []Alias
	for rows.Next() {
		var a Alias
		if err := rows.Scan(a.fields()...); err != nil {
			return nil, fmt.Errorf("aliases of room: %w", err)
		}
		list = append(list, a)
	}
	return list, rows.Err()
}
