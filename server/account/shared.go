package account

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the established protocol says SHA-1, and HMAC-SHA1 is sound
	"encoding/hex"
	"net/http"

	"hearth/storage/matrix"
)

// SharedRegistration is a request of whoever knows the shared secret. MAC is
// the hexadecimal HMAC-SHA1 over nonce, name, password, "admin" or "notadmin"
// and, if there is one, the type, each separated by a NUL.
type SharedRegistration struct {
	Nonce, Name string
	Password    matrix.Token
	Admin       bool
	Type        string
	MAC         string
}

// SharedSecretSet tells whether shared-secret registration is offered.
func (a *Accounts) SharedSecretSet() bool { return a.opt.SharedSecret != "" }

// NewNonce makes a nonce, good for one request within a minute.
func (a *Accounts) NewNonce() string {
	nonce := randomString(24)
	a.nonces.put(nonce, struct{}{})
	return nonce
}

// CheckShared takes the nonce and compares the MAC, in constant time.
func (a *Accounts) CheckShared(r SharedRegistration) error {
	if _, ok := a.nonces.take(r.Nonce); !ok {
		return &matrix.Error{Status: http.StatusBadRequest, Code: matrix.Unknown, Message: "the nonce is unknown, used or expired"}
	}
	mac := hmac.New(sha1.New, []byte(a.opt.SharedSecret.Reveal()))
	admin := "notadmin"
	if r.Admin {
		admin = "admin"
	}
	for _, part := range []string{r.Nonce, "\x00", r.Name, "\x00", r.Password.Reveal(), "\x00", admin} {
		_, _ = mac.Write([]byte(part)) // never fails
	}
	if r.Type != "" {
		_, _ = mac.Write([]byte("\x00" + r.Type))
	}
	got, err := hex.DecodeString(r.MAC)
	if err != nil || a.opt.SharedSecret == "" || !hmac.Equal(got, mac.Sum(nil)) {
		return matrix.Errorf(matrix.Forbidden, "the MAC is wrong")
	}
	return nil
}

// RegisterShared makes the account that a checked request asks for, and a session.
func (a *Accounts) RegisterShared(ctx context.Context, r SharedRegistration, login *LoginRequest) (Login, error) {
	local, err := a.CheckName(ctx, r.Name)
	if err != nil {
		return Login{}, err
	}
	return a.Register(ctx, Registration{Localpart: local, Password: r.Password, Admin: r.Admin, Type: r.Type, Login: login})
}
