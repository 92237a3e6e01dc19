package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"hearth/storage/matrix"
)

// The stages of user-interactive authentication that the server knows.
// Client-Server API, "Authentication types".
const (
	StagePassword = "m.login.password"
	StageDummy    = "m.login.dummy"
	StageRegToken = "m.login.registration_token"
	StageTerms    = "m.login.terms"
)

const (
	maxAttempts  = 10      // failed attempts per session
	maxRemember  = 4 << 10 // bytes of request that a session keeps
	maxUserFlows = 16      // open sessions per user
	maxSessionID = 64      // bytes
)

// Auth is what a client submits as "auth".
type Auth struct {
	Type       string       `json:"type"`
	Session    string       `json:"session"`
	Identifier Identifier   `json:"identifier"`
	User       string       `json:"user"` // deprecated, still sent
	Password   matrix.Token `json:"password"`
	Token      matrix.Token `json:"token"`
}

// Identifier says whom a client means. Client-Server API, "Identifier types".
type Identifier struct {
	Type string `json:"type"`
	User string `json:"user"`
}

// Flow is a way to authenticate: its stages are completed in order.
type Flow struct {
	Stages   []string `json:"stages"`
	Unlisted bool     `json:"-"` // good for whoever knows of it, and offered to nobody
}

// Challenge is the 401 answer that asks for more authentication. It is no
// error body: errcode is only there after a failed attempt.
// Client-Server API, "User-interactive API in the REST API".
type Challenge struct {
	Flows     []Flow         `json:"flows"`
	Params    map[string]any `json:"params"`
	Session   string         `json:"session"`
	Completed []string       `json:"completed,omitempty"`
	Code      matrix.Code    `json:"errcode,omitempty"`
	Message   string         `json:"error,omitempty"`

	// Polled means that the request tried nothing and changed nothing: it asked
	// how the session stands, as clients do every few seconds while their user
	// is at a stage.
	Polled bool `json:"-"`
}

// Status makes the HTTP status of the answer.
func (*Challenge) Status() int { return http.StatusUnauthorized }

// Interaction is one request to an endpoint that needs user-interactive authentication.
type Interaction struct {
	Endpoint string        // method and route: a session is good for one
	Subject  string        // what the user consents to; a session is good for one
	User     matrix.UserID // who must authenticate; "" when registering
	Flows    []Flow
	Params   map[string]any
	Auth     *Auth // nil: none was sent
	Request  any   // the request; kept for clients that come back with the session alone
	Size     int   // bytes of Request, about
}

// Proven is a completed authentication.
type Proven struct {
	Request  any          // as given when the session began; nil if it was too big to keep
	RegToken matrix.Token // the registration token that was shown, or ""
}

// interaction is a session. Its fields change only under the lock of
// [Accounts.interactions].
type interaction struct {
	Interaction
	id        string
	completed []string
	regToken  matrix.Token
	failed    int
}

// Interact judges one request. With a challenge it is not authenticated yet.
// Without, it is: the session is over, and the caller performs the request. If
// that fails, resume gives the session back, so that the client may correct
// the request without proving itself again.
func (a *Accounts) Interact(ctx context.Context, in Interaction) (p Proven, resume func(), c *Challenge, err error) {
	s, refusal := a.session(in)
	if refusal == nil && in.Auth != nil && in.Auth.Type != "" {
		refusal, err = a.attempt(ctx, s, in.Auth)
		if err != nil {
			return Proven{}, nil, nil, err
		}
	}
	if in.Auth != nil && refusal == nil {
		if s, ok := a.claim(s.id); ok {
			return Proven{s.Request, s.regToken}, func() { a.interactions.put(s.id, s) }, nil, nil
		}
	}
	c = a.challenge(s, refusal)
	c.Polled = in.Auth != nil && in.Auth.Type == "" && refusal == nil &&
		(in.Request == nil || reflect.DeepEqual(in.Request, s.Request))
	return Proven{}, nil, c, nil
}

// session finds the session the client names, if it is for the same thing, or begins one.
func (a *Accounts) session(in Interaction) (*interaction, *matrix.Error) {
	if in.Auth == nil || in.Auth.Session == "" {
		return a.begin(in), nil
	}
	if len(in.Auth.Session) <= maxSessionID {
		s, ok := a.interactions.get(in.Auth.Session)
		if ok && s.Endpoint == in.Endpoint && s.User == in.User && s.concerns(in) {
			return s, nil
		}
	}
	return a.begin(in), refuse(matrix.Forbidden, "this authentication session is unknown, expired or for another request; begin again")
}

// concerns tells whether the request is what the session was begun for, or
// names nothing, for which the remembered request stands.
func (s *interaction) concerns(in Interaction) bool {
	return s.Subject == in.Subject || in.Request == nil && s.Request != nil
}

func (a *Accounts) begin(in Interaction) *interaction {
	if in.User != "" {
		a.dropExcess(in.User)
	}
	if in.Size > maxRemember {
		in.Request = nil
	}
	in.Auth = nil // holds secrets
	s := &interaction{Interaction: in, id: randomString(18)}
	a.interactions.put(s.id, s)
	return s
}

// dropExcess keeps one user from driving out the sessions of others: the oldest
// of that user's own go.
func (a *Accounts) dropExcess(user matrix.UserID) {
	n := 0
	a.interactions.removeIf(func(s *interaction) bool {
		if s.User == user {
			n++
		}
		return s.User == user && n >= maxUserFlows
	})
}

// attempt tries one stage. A refusal is for the client to try again; an error
// ends the request.
func (a *Accounts) attempt(ctx context.Context, s *interaction, auth *Auth) (*matrix.Error, error) {
	done := a.completed(s.id)
	if slices.Contains(done, auth.Type) {
		return nil, nil // a completed stage is not tried again
	}
	if !s.next(done, auth.Type) {
		return refuse(matrix.Forbidden, "this is not the next stage of any flow"), nil
	}
	refusal, err := a.tryStage(ctx, s, auth)
	if err != nil {
		return nil, err
	}
	a.record(s.id, auth, refusal != nil)
	return refusal, nil
}

// next tells whether stage may follow what was completed.
func (s *interaction) next(done []string, stage string) bool {
	return slices.ContainsFunc(s.Flows, func(f Flow) bool {
		n := len(done)
		return n < len(f.Stages) && slices.Equal(f.Stages[:n], done) && f.Stages[n] == stage
	})
}

func (a *Accounts) tryStage(ctx context.Context, s *interaction, auth *Auth) (*matrix.Error, error) {
	switch auth.Type {
	case StageDummy, StageTerms:
		return nil, nil
	case StageRegToken:
		ok, err := a.CheckRegToken(ctx, auth.Token)
		if err != nil || ok {
			return nil, err
		}
		return refuse(matrix.Unauthorized, "this registration token is not valid"), nil
	case StagePassword:
		return a.tryPassword(ctx, s.User, auth)
	}
	return nil, fmt.Errorf("account: a flow names the unknown stage %q", auth.Type)
}

func (a *Accounts) tryPassword(ctx context.Context, user matrix.UserID, auth *Auth) (*matrix.Error, error) {
	named := auth.User
	if auth.Identifier.Type != "" {
		if auth.Identifier.Type != "m.id.user" {
			return refuse(matrix.Forbidden, "no user is known by this identifier"), nil
		}
		named = auth.Identifier.User
	}
	if named != "" { // without, it can only be the user whose token it is
		if local, ok := a.LocalpartOf(named); !ok || local != user.Localpart() {
			return nil, matrix.Errorf(matrix.Forbidden, "you must authenticate as the user of this access token")
		}
	}
	_, err := a.CheckPassword(ctx, user.Localpart(), auth.Password)
	var told *matrix.Error
	if errors.As(err, &told) && told.Code == matrix.Forbidden {
		return refuse(matrix.Forbidden, "wrong password"), nil
	}
	return nil, err
}

// completed reads the finished stages of a session under its lock.
func (a *Accounts) completed(id string) (done []string) {
	a.interactions.update(id, func(s **interaction) { done = slices.Clone((*s).completed) })
	return done
}

// record notes the outcome of an attempt.
func (a *Accounts) record(id string, auth *Auth, failed bool) {
	tired := false
	a.interactions.update(id, func(p **interaction) {
		s := *p
		switch {
		case failed:
			s.failed++
			tired = s.failed >= maxAttempts
		case s.next(s.completed, auth.Type):
			s.completed = append(s.completed, auth.Type)
			if auth.Type == StageRegToken {
				s.regToken = auth.Token
			}
		}
	})
	if tired {
		a.interactions.take(id)
	}
}

// claim takes a session whose flow is complete. Of several requests one gets it.
func (a *Accounts) claim(id string) (*interaction, bool) {
	whole := false
	a.interactions.update(id, func(p **interaction) { whole = (*p).whole() })
	if !whole {
		return nil, false
	}
	return a.interactions.take(id)
}

func (s *interaction) whole() bool {
	return slices.ContainsFunc(s.Flows, func(f Flow) bool { return slices.Equal(f.Stages, s.completed) })
}

func (a *Accounts) challenge(s *interaction, refusal *matrix.Error) *Challenge {
	listed := slices.DeleteFunc(slices.Clone(s.Flows), func(f Flow) bool { return f.Unlisted })
	c := &Challenge{Flows: listed, Params: s.Params, Session: s.id, Completed: a.completed(s.id)}
	if c.Params == nil {
		c.Params = map[string]any{}
	}
	if refusal != nil {
		c.Code, c.Message = refusal.Code, refusal.Message
	}
	return c
}

func refuse(code matrix.Code, message string) *matrix.Error {
	return &matrix.Error{Status: http.StatusUnauthorized, Code: code, Message: message}
}
