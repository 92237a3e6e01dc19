package keyring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// maxNotaryAnswers bounds the statements read of one notary's answer.
const maxNotaryAnswers = 16

// sources lists whom to ask for a key, in order. Notaries speak for themselves
// only, or two that wait for each other's keys would wait for ever.
func (r *Ring) sources(server matrix.ServerName, id matrix.KeyID, m moment, since int64) []errand {
	list := []errand{r.directErrand(server)}
	list[0].since = since
	if len(r.opt.Notaries) > 0 && !slices.Contains(r.opt.Notaries, server) {
		list = append(list, errand{
			of:       errandID{server: server, notaries: true},
			since:    r.fetches.mark(), // another key may have been asked for before
			patience: r.opt.Timeout * time.Duration(len(r.opt.Notaries)),
			run:      func(ctx context.Context) error { return r.askNotaries(ctx, server, id, m) },
		})
	}
	return list
}

// askNotaries asks one notary after the other until one knows the key.
func (r *Ring) askNotaries(ctx context.Context, server matrix.ServerName, id matrix.KeyID, m moment) error {
	var errs []error
	for _, notary := range r.opt.Notaries {
		if err := r.askNotary(ctx, notary, server, id, m); err != nil {
			errs = append(errs, fmt.Errorf("notary %s: %w", notary, err))
			continue
		}
		known, err := r.lookup(ctx, server)
		if err != nil {
			return err
		}
		if _, miss := pick(known, id, m); miss == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

func (r *Ring) askNotary(ctx context.Context, notary, server matrix.ServerName, id matrix.KeyID, m moment) error {
	ctx, cancel := context.WithTimeout(ctx, r.opt.Timeout)
	defer cancel()
	at := m.at
	if at.IsZero() {
		at = m.now
	}
	query, err := json.Marshal(Query{Servers: map[string]map[string]Criteria{
		string(server): {string(id): {MinimumValidUntil: at.UnixMilli()}},
	}})
	if err != nil {
		return err
	}
	raw, err := r.fetcher.QueryKeys(ctx, notary, query)
	if err != nil {
		return err
	}
	var answer QueryAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	for _, raw := range answer.Keys[:min(len(answer.Keys), maxNotaryAnswers)] {
		if err = r.takeNotarized(ctx, notary, server, raw); err != nil {
			err = &badStatement{server, err}
		}
	}
	return err
}

// takeNotarized keeps a statement that the server and the notary have signed.
func (r *Ring) takeNotarized(ctx context.Context, notary, server matrix.ServerName, raw []byte) error {
	now := r.opt.Now()
	s, err := parseStatement(raw, server, now)
	if err != nil {
		return err
	}
	err = errors.New("not signed by the notary")
	for _, id := range signedBy(raw, notary) {
		var pub []byte
		if pub, err = r.find(ctx, notary, id, moment{at: now, now: now, request: true}); err != nil {
			continue
		}
		if err = matrix.VerifyJSON(raw, notary, id, pub); err == nil {
			return r.keep(ctx, s, false, now)
		}
	}
	return err
}

// Query is the request of POST /_matrix/key/v2/query: server names, key IDs,
// and how long the keys shall be valid at least.
type Query struct {
	Servers map[string]map[string]Criteria `json:"server_keys"`
}

// Criteria is what a query asks of a key. Zero means now.
type Criteria struct {
	MinimumValidUntil int64 `json:"minimum_valid_until_ts,omitzero"`
}

// QueryAnswer is the response of both forms of the query.
type QueryAnswer struct {
	Keys []jsontext.Value `json:"server_keys"`
}

// Notarize returns what is known of a server's keys, fetched from it if that is
// nothing, old, or not valid until then (wall clock in milliseconds; at least
// now), and signed by this server too. The
// last known statement serves for a server that does not answer; where there
// is none the result is nil.
// Server-Server API, "Querying Keys Through Another Server".
func (r *Ring) Notarize(ctx context.Context, server matrix.ServerName, until int64) (jsontext.Value, error) {
	if server == r.store.ServerName() {
		return r.ServerKeys()
	}
	known, err := r.lookup(ctx, server)
	if err != nil {
		return nil, err
	}
	if known == nil || r.stale(known, r.opt.Now()) || known.ValidUntilMS < until {
		// Not to fetch it is no failure: the last one known still verifies old events.
		_ = r.fetch(ctx, r.directErrand(server), asked)
		if known, err = r.lookup(context.WithoutCancel(ctx), server); err != nil || known == nil {
			return nil, err
		}
	}
	return r.countersign(known)
}

func (r *Ring) countersign(known *storage.ServerKeys) (jsontext.Value, error) {
	out, err := matrix.SignJSON(known.Statement, r.Signer())
	if err != nil {
		return nil, fmt.Errorf("sign keys of %s: %w", known.Server, err)
	}
	return out, nil
}
