package account

import (
	"context"

	"hearth/storage/matrix"
)

// Policy is a document that new users must accept.
type Policy struct {
	ID       string // "privacy_policy", say
	Version  string
	Language string // "en"
	Name     string // for people
	URL      string
}

// RegistrationFlows says how a new user may authenticate now, with the
// parameters of the stages. M_FORBIDDEN means that registration is closed.
//
// Where anyone may register, the token of the first administrator is good but
// not offered: of two flows, clients take the one that asks for something, and
// would ask everybody for a token that only one has.
func (a *Accounts) RegistrationFlows(ctx context.Context) ([]Flow, map[string]any, error) {
	awaited, err := a.awaitsAdmin(ctx)
	if err != nil {
		return nil, nil, err
	}
	var flows []Flow
	if a.opt.Registration == Open {
		first := StageDummy
		if len(a.opt.Terms) > 0 {
			first = StageTerms // consent is a stage of its own, dummy would add nothing
		}
		flows = append(flows, Flow{Stages: []string{first}})
	}
	if a.opt.Registration == Token || awaited {
		stages := []string{StageRegToken}
		if len(a.opt.Terms) > 0 {
			stages = append(stages, StageTerms)
		}
		flows = append(flows, Flow{Stages: stages, Unlisted: a.opt.Registration == Open})
	}
	if len(flows) == 0 {
		return nil, nil, matrix.Errorf(matrix.Forbidden, "registration is closed on this server")
	}
	return flows, a.registrationParams(), nil
}

func (a *Accounts) registrationParams() map[string]any {
	if len(a.opt.Terms) == 0 {
		return nil
	}
	policies := map[string]map[string]any{}
	for _, p := range a.opt.Terms {
		if policies[p.ID] == nil {
			policies[p.ID] = map[string]any{}
		}
		policies[p.ID]["version"] = p.Version
		policies[p.ID][p.Language] = map[string]string{"name": p.Name, "url": p.URL}
	}
	return map[string]any{StageTerms: map[string]any{"policies": policies}}
}

// RegistrationOpen tells whether anyone could register at all, given the right token.
func (a *Accounts) RegistrationOpen(ctx context.Context) (bool, error) {
	if a.opt.Registration != Closed {
		return true, nil
	}
	return a.awaitsAdmin(ctx)
}

// Terms are the documents that new users must accept.
func (a *Accounts) Terms() []Policy { return a.opt.Terms }

// PasswordFlow asks for the user's password.
func PasswordFlow() []Flow { return []Flow{{Stages: []string{StagePassword}}} }

// Awaits tells whether the session's next stage may be the given one, for the
// page that completes it in a browser. Client-Server API, "Fallback".
func (a *Accounts) Awaits(session, stage string) bool {
	ok := false
	a.interactions.update(session, func(p **interaction) { ok = (*p).next((*p).completed, stage) })
	return ok
}

// CompleteStage tries a stage of a session outside of its endpoint, for the
// page. A refusal says why the stage is not complete.
func (a *Accounts) CompleteStage(ctx context.Context, auth Auth) (refusal *matrix.Error, err error) {
	s, ok := a.interactions.get(auth.Session)
	if !ok {
		return refuse(matrix.Forbidden, "this authentication session is unknown or expired"), nil
	}
	return a.attempt(ctx, s, &auth)
}
