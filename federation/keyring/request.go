package keyring

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/remote"
	"hearth/storage/matrix"
)

// retryBusy is what a peer is told to wait that found no place.
const retryBusy = 5 * time.Second

// CheckRequest decides all of a request's authentication that its body is not
// needed for: that it is for this server, and that its origin has the key,
// which is fetched if need be. Calling it first keeps bodies out of memory
// while keys are fetched. Errors are as of [Ring.VerifyRequest].
func (r *Ring) CheckRequest(ctx context.Context, x remote.XMatrix) error {
	_, err := r.requestKey(ctx, x)
	return err
}

// VerifyRequest tells whether a request comes from the server that it names.
// uri is the request target as sent, query included, and body its bytes. The
// error is 401 M_UNAUTHORIZED where it does not, 429 where keys could not be
// fetched for want of places, 400 M_NOT_JSON or M_BAD_JSON where the body cannot be signed JSON.
// Server-Server API, "Request Authentication".
func (r *Ring) VerifyRequest(ctx context.Context, x remote.XMatrix, method, uri string, body []byte) error {
	pub, err := r.requestKey(ctx, x)
	if err != nil {
		return err
	}
	switch err := x.Verify(method, uri, r.store.ServerName(), body, pub); {
	case errors.Is(err, matrix.ErrBadSignature):
		r.askAnew(x.Origin)
		return matrix.Errorf(matrix.Unauthorized, "The signature does not verify with key %s of %s", x.Key, x.Origin)
	case err != nil && !jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)):
		return matrix.Errorf(matrix.NotJSON, "The request body is not JSON")
	case err != nil:
		return matrix.Errorf(matrix.BadJSON, "The request body is not JSON that can be signed")
	}
	return nil
}

// askAnew has a server asked for its keys, if that was not done shortly before:
// one that was set up again may have another key under the same ID. Nobody
// waits for the answer with the body of a request in memory. Who is the server
// will repeat the request.
func (r *Ring) askAnew(server matrix.ServerName) {
	_, _ = r.start(r.directErrand(server), acquaintance) // there is nobody to tell
}

func (r *Ring) requestKey(ctx context.Context, x remote.XMatrix) ([]byte, error) {
	us := r.store.ServerName()
	if x.Destination != "" && x.Destination != us {
		return nil, matrix.Errorf(matrix.Unauthorized, "The request is for %s, and this is %s", x.Destination, us)
	}
	if x.Origin == us {
		return nil, matrix.Errorf(matrix.Unauthorized, "The request claims to come from this server itself")
	}
	now := r.opt.Now()
	pub, err := r.find(ctx, x.Origin, x.Key, moment{at: now, now: now, request: true})
	switch {
	case errors.Is(err, ErrUnknownKey):
		return nil, matrix.Errorf(matrix.Unauthorized, "Key %s of %s is not to be had", x.Key, x.Origin)
	case errors.Is(err, ErrExpiredKey):
		return nil, matrix.Errorf(matrix.Unauthorized, "Key %s of %s is no longer valid", x.Key, x.Origin)
	case errors.Is(err, ErrBusy):
		return nil, &matrix.Error{
			Status: matrix.LimitExceeded.Status(), Code: matrix.LimitExceeded,
			Message: "Too many keys are being fetched", RetryAfter: retryBusy,
		}
	}
	return pub, err
}
