package storage

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// AccountData is one entry of what a user's clients keep here.
// Client-Server API, "Client Config".
type AccountData struct {
	Room    matrix.RoomID // "": concerns the whole account
	Type    string
	Content jsontext.Value // a JSON object
	Pos     int64          // when it was last set
}

// AccountDataLimits bounds what one user may keep. Zero: no bound.
type AccountDataLimits struct {
	Entries int64
	Bytes   int64 // of content, type and room of all entries
}

const accountDataColumns = `room, type, content, pos`

func (d *AccountData) fields() []any { return []any{&d.Room, &d.Type, (*[]byte)(&d.Content), &d.Pos} }

var accountData = stmt(`SELECT ` + accountDataColumns + ` FROM account_data
	WHERE user_num = ? AND room = ? AND type = ?`)

// AccountData finds one entry of a user; room "" means the whole account. What
// was never set is [ErrNotFound]; what was set to {} is there.
func (rx *Rx) AccountData(user int64, room matrix.RoomID, typ string) (AccountData, error) {
	var d AccountData
	if err := rx.row(accountData, []any{user, string(room), typ}, d.fields()...); err != nil {
		return AccountData{}, fmt.Errorf("account data: %w", err)
	}
	return d, nil
}

var accountDataAfter = stmt(`SELECT ` + accountDataColumns + ` FROM account_data
	WHERE user_num = ? AND pos > ? AND pos <= ? ORDER BY pos`)

// AccountDataAfter lists what was set last in (after, upto], of the account and
// of all rooms, oldest first. With after 0 that is everything.
func (rx *Rx) AccountDataAfter(user, after, upto int64) ([]AccountData, error) {
	return rx.listAccountData(accountDataAfter, user, after, upto)
}

var accountDataOf = stmt(`SELECT ` + accountDataColumns + ` FROM account_data
	WHERE user_num = ? AND room = ? ORDER BY type`)

// AccountDataOf lists all that a user keeps for one room, by type; room "" means
// the whole account.
func (rx *Rx) AccountDataOf(user int64, room matrix.RoomID) ([]AccountData, error) {
	return rx.listAccountData(accountDataOf, user, string(room))
}

func (rx *Rx) listAccountData(s *statement, args ...any) ([]AccountData, error) {
	rows, err := rx.query(s, args...)
	if err != nil {
		return nil, fmt.Errorf("list account data: %w", err)
	}
	defer rows.Close()
	var list []AccountData
	for rows.Next() {
		var d AccountData
		if err := rows.Scan(d.fields()...); err != nil {
			return nil, fmt.Errorf("list account data: %w", err)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

var (
	accountDataRoom = stmt(`SELECT ifnull((SELECT entries FROM account_data_totals WHERE user_num = ?1), 0),
		ifnull((SELECT bytes FROM account_data_totals WHERE user_num = ?1), 0),
		(SELECT octet_length(content) FROM account_data WHERE user_num = ?1 AND room = ?2 AND type = ?3)`)
	setAccountData = stmt(`INSERT INTO account_data (user_num, room, type, content, pos) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (user_num, room, type) DO UPDATE SET content = excluded.content, pos = excluded.pos`)
)

// SetAccountData stores one entry of a user over the one of its room and type,
// at a new position, which it returns, and tells the user's clients. It is
// [ErrFull] where the user would then keep more than max allows; an entry that
// does not grow always fits. Content is a JSON object; {} is kept like any other.
func (tx *Tx) SetAccountData(user int64, d AccountData, max AccountDataLimits) (pos int64, err error) {
	if err := tx.fitAccountData(user, d, max); err != nil {
		return 0, fmt.Errorf("set account data: %w", err)
	}
	pos = tx.NextPos()
	if _, err := tx.exec(setAccountData, user, string(d.Room), d.Type, []byte(d.Content), pos); err != nil {
		return 0, fmt.Errorf("set account data: %w", err)
	}
	tx.News(News{Users: []int64{user}})
	return pos, nil
}

// fitAccountData tells whether there is room for d.
func (tx *Tx) fitAccountData(user int64, d AccountData, max AccountDataLimits) error {
	var entries, bytes int64
	var old *int64
	if err := tx.row(accountDataRoom, []any{user, string(d.Room), d.Type}, &entries, &bytes, &old); err != nil {
		return err
	}
	grows := int64(len(d.Content))
	if old != nil {
		grows -= *old
	} else {
		grows += int64(len(d.Type) + len(d.Room))
		if max.Entries > 0 && entries >= max.Entries {
			return ErrFull
		}
	}
	if max.Bytes > 0 && grows > 0 && bytes+grows > max.Bytes {
		return ErrFull
	}
	return nil
}

var (
	deleteAccountData   = stmt(`DELETE FROM account_data WHERE user_num = ?`)
	deleteAccountTotals = stmt(`DELETE FROM account_data_totals WHERE user_num = ?`)
)

// forgetAccountData deletes all that a user keeps.
func (tx *Tx) forgetAccountData(user int64) error {
	for _, s := range []*statement{deleteAccountData, deleteAccountTotals} {
		if _, err := tx.exec(s, user); err != nil {
			return fmt.Errorf("forget account data: %w", err)
		}
	}
	return nil
}

// invitePermission is the type of the entry that says who may invite.
// Client-Server API, "Invite permission".
const invitePermission = "m.invite_permission_config"

// InvitesBlocked tells whether a local user wants no invites at all: new ones
// are refused by [Rx.MayInvite], and those that are there already are not told
// to the user's clients.
func (rx *Rx) InvitesBlocked(user int64) (bool, error) {
	d, err := rx.AccountData(user, "", invitePermission)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var content struct {
		Action jsontext.Value `json:"default_action"`
	}
	// A value that is not understood blocks nobody.
	if err := json.Unmarshal(d.Content, &content); err != nil || content.Action.Kind() != '"' {
		return false, nil //nolint:nilerr // as the specification says
	}
	var action string
	return json.Unmarshal(content.Action, &action) == nil && action == "block", nil
}

// MayInvite is asked before an invite to a user is built or accepted, whoever
// invites. It returns [ErrInviteBlocked], which is for the client, where the
// user is one of ours and wants none. A user of another server is for that
// server to judge; one of ours that does not exist is not refused here.
func (rx *Rx) MayInvite(user matrix.UserID) error {
	u, err := rx.UserByID(user)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	blocked, err := rx.InvitesBlocked(u.Num)
	if err == nil && blocked {
		err = ErrInviteBlocked
	}
	return err
}

// ErrInviteBlocked is M_INVITE_BLOCKED, see [Rx.MayInvite].
var ErrInviteBlocked error = matrix.Errorf(matrix.InviteBlocked, "this user accepts no invites")
