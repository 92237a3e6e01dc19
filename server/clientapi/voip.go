package clientapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // TURN servers speak HMAC-SHA1, which is sound
	"encoding/base64"
	"fmt"

	"hearth/server/web"
	"hearth/storage"
)

type turnServer struct {
	Username string   `json:"username"`
	Password string   `json:"password"`
	URIs     []string `json:"uris"`
	TTL      int64    `json:"ttl"` // seconds
}

// getTurnServer serves GET /_matrix/client/v3/voip/turnServer: credentials made
// of the secret shared with the TURN server, or {} where there is none.
// Client-Server API, "Voice over IP".
func (a *API) getTurnServer(ctx context.Context, c *web.Call, _ web.NoBody) (any, error) {
	turn := a.Options.Turn
	if len(turn.URIs) == 0 || turn.Secret == "" {
		return web.Empty{}, nil
	}
	var until int64
	err := a.Store.Read(ctx, "time", func(rx *storage.Rx) error {
		until = rx.Now.Add(turn.TTL).Unix()
		return nil
	})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d:%s", until, c.User)
	mac := hmac.New(sha1.New, []byte(turn.Secret.Reveal()))
	_, _ = mac.Write([]byte(name)) // never fails
	return turnServer{
		Username: name,
		Password: base64.StdEncoding.EncodeToString(mac.Sum(nil)),
		URIs:     turn.URIs,
		TTL:      int64(turn.TTL.Seconds()),
	}, nil
}
