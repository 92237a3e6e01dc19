package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hearth/server/config"
	"hearth/storage"
	"hearth/storage/matrix"
)

// commands is all that a server can be told. The methods of [Admin] below are
// the other end of each. Secrets are plain strings here, because these types
// cross the control socket as JSON.
var commands = map[string]command{
	"user-add":            commandOf(addUser),
	"user-list":           commandOf(listUsers),
	"user-deactivate":     commandOf(deactivateUser),
	"user-reset-password": commandOf(resetPassword),
	"user-lock":           commandOf(lockUser),
	"user-suspend":        commandOf(suspendUser),
	"token-add":           commandOf(addToken),
	"token-list":          commandOf(listTokens),
	"token-revoke":        commandOf(revokeToken),
	"key-export":          commandOf(exportKey),
	"key-import":          commandOf(importKey),
	"key-rotate":          commandOf(rotateKey),
	"federation-queue":    commandOf(listQueues),
	"federation-retry":    commandOf(retryQueue),
	"check":               commandOf(check),
	"backup":              commandOf(backup),
}

type none struct{}

// NewUser is an account to be made.
type NewUser struct {
	Name     string `json:"name"` // localpart or whole user ID
	Password string `json:"password"`
	Admin    bool   `json:"admin"`
}

// AddUser makes an account, whatever the registration mode, and returns its user ID.
func (a *Admin) AddUser(ctx context.Context, u NewUser) (matrix.UserID, error) {
	return do[matrix.UserID](ctx, a, "user-add", u, nil)
}

func addUser(ctx context.Context, s *Server, in NewUser, _ Progress) (matrix.UserID, error) {
	id, err := s.userID(in.Name)
	if err != nil {
		return "", err
	}
	return s.accounts.AddUser(ctx, id.Localpart(), matrix.Token(in.Password), in.Admin)
}

// userID completes a localpart. A user of another server is refused.
func (s *Server) userID(name string) (matrix.UserID, error) {
	if !strings.HasPrefix(name, "@") {
		name = "@" + name + ":" + string(s.store.ServerName())
	}
	id, err := matrix.ParseUserID(name)
	if err == nil && id.Server() != s.store.ServerName() {
		err = fmt.Errorf("%s is no user of this server, %s", id, s.store.ServerName())
	}
	return id, err
}

// User is an account as the administrator sees it.
type User struct {
	ID          matrix.UserID `json:"user_id"`
	Admin       bool          `json:"admin"`
	Deactivated bool          `json:"deactivated"`
	Locked      bool          `json:"locked"`
	Suspended   bool          `json:"suspended"`
	Devices     int           `json:"devices"`
	Created     time.Time     `json:"created"`
}

// usersPerPage bounds one answer.
const usersPerPage = 500

type userPage struct {
	Users []User `json:"users"`
	Next  int64  `json:"next"` // 0: no more
}

// ListUsers calls fn for every account, in order of creation.
func (a *Admin) ListUsers(ctx context.Context, fn func(User)) error {
	for after := int64(0); ; {
		page, err := do[userPage](ctx, a, "user-list", after, nil)
		if err != nil {
			return err
		}
		for _, u := range page.Users {
			fn(u)
		}
		if after = page.Next; after == 0 {
			return nil
		}
	}
}

func listUsers(ctx context.Context, s *Server, after int64, _ Progress) (userPage, error) {
	users, err := s.accounts.ListUsers(ctx, after, usersPerPage)
	if err != nil {
		return userPage{}, err
	}
	page := userPage{}
	for _, u := range users {
		page.Users = append(page.Users, User{
			ID: u.ID, Admin: u.Admin, Deactivated: !u.Active(), Locked: u.Locked, Suspended: u.Suspended,
			Devices: u.Devices, Created: time.UnixMilli(u.CreatedMS),
		})
	}
	if len(users) == usersPerPage {
		page.Next = users[len(users)-1].Num
	}
	return page, nil
}

// Deactivation ends an account for ever.
type Deactivation struct {
	Name  string `json:"name"`
	Erase bool   `json:"erase"` // the user's content too, where later steps can
}

// DeactivateUser ends an account and logs all its devices out.
func (a *Admin) DeactivateUser(ctx context.Context, d Deactivation) error {
	_, err := do[none](ctx, a, "user-deactivate", d, nil)
	return err
}

func deactivateUser(ctx context.Context, s *Server, in Deactivation, _ Progress) (none, error) {
	id, err := s.userID(in.Name)
	if err != nil {
		return none{}, err
	}
	return none{}, named(s.accounts.Deactivate(ctx, id, in.Erase), id)
}

// NewPassword replaces a password.
type NewPassword struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	Logout   bool   `json:"logout"` // all devices
}

// ResetPassword sets a user's password.
func (a *Admin) ResetPassword(ctx context.Context, p NewPassword) error {
	_, err := do[none](ctx, a, "user-reset-password", p, nil)
	return err
}

func resetPassword(ctx context.Context, s *Server, in NewPassword, _ Progress) (none, error) {
	id, err := s.userID(in.Name)
	if err != nil {
		return none{}, err
	}
	return none{}, named(s.accounts.ResetPassword(ctx, id, matrix.Token(in.Password), in.Logout), id)
}

// Moderation locks or suspends an account, or ends that.
type Moderation struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}

// LockUser sets whether an account may only log out.
func (a *Admin) LockUser(ctx context.Context, m Moderation) error {
	_, err := do[none](ctx, a, "user-lock", m, nil)
	return err
}

func lockUser(ctx context.Context, s *Server, in Moderation, _ Progress) (none, error) {
	id, err := s.userID(in.Name)
	if err != nil {
		return none{}, err
	}
	return none{}, named(s.accounts.SetLocked(ctx, id, in.On), id)
}

// SuspendUser sets whether an account may only read, leave and the like.
func (a *Admin) SuspendUser(ctx context.Context, m Moderation) error {
	_, err := do[none](ctx, a, "user-suspend", m, nil)
	return err
}

func suspendUser(ctx context.Context, s *Server, in Moderation, _ Progress) (none, error) {
	id, err := s.userID(in.Name)
	if err != nil {
		return none{}, err
	}
	return none{}, named(s.accounts.SetSuspended(ctx, id, in.On), id)
}

func named(err error, id matrix.UserID) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("there is no user %s", id)
	}
	return err
}

// NewToken is a registration token to be made.
type NewToken struct {
	Name     string          `json:"name"` // the token itself; empty: a random one
	Uses     int64           `json:"uses"` // 0: any number
	Lifetime config.Duration `json:"lifetime"`
}

// AddToken makes a registration token and returns it.
func (a *Admin) AddToken(ctx context.Context, t NewToken) (string, error) {
	return do[string](ctx, a, "token-add", t, nil)
}

func addToken(ctx context.Context, s *Server, in NewToken, _ Progress) (string, error) {
	t, err := s.accounts.AddToken(ctx, in.Name, in.Uses, time.Duration(in.Lifetime))
	return t.Reveal(), err
}

// Token is a registration token as the administrator sees it.
type Token struct {
	Token     string          `json:"token"`
	Allowed   int64           `json:"allowed"` // uses; 0: any number
	Used      int64           `json:"used"`
	ExpiresIn config.Duration `json:"expires_in"` // 0: never
	Valid     bool            `json:"valid"`
}

// ListTokens returns all registration tokens.
func (a *Admin) ListTokens(ctx context.Context) ([]Token, error) {
	return do[[]Token](ctx, a, "token-list", none{}, nil)
}

func listTokens(ctx context.Context, s *Server, _ none, _ Progress) ([]Token, error) {
	list, err := s.accounts.ListTokens(ctx)
	out := make([]Token, 0, len(list))
	for _, t := range list {
		if t.Expires != 0 {
			t.ExpiresIn = max(t.ExpiresIn, time.Millisecond) // long ago is not never
		}
		out = append(out, Token{Token: t.Token.Reveal(), Allowed: t.Allowed, Used: t.Uses, ExpiresIn: config.Duration(t.ExpiresIn), Valid: t.Valid})
	}
	return out, err
}

// RevokeToken deletes a registration token.
func (a *Admin) RevokeToken(ctx context.Context, token string) error {
	_, err := do[none](ctx, a, "token-revoke", token, nil)
	return err
}

func revokeToken(ctx context.Context, s *Server, token string, _ Progress) (none, error) {
	err := s.accounts.RevokeToken(ctx, matrix.Token(token))
	if errors.Is(err, storage.ErrNotFound) {
		err = errors.New("there is no such registration token; see hearth token list")
	}
	return none{}, err
}
