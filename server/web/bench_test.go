package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hearth/server/web"
)

// BenchmarkKernel is what the kernel adds to a request: routing among as many
// routes as the client API has, the token, the body, and the response.
func BenchmarkKernel(b *testing.B) {
	k := web.New(web.Options{Auth: people{}})
	paths := []string{"send/{eventType}/{txnId}", "state/{eventType}", "state/{eventType}/{stateKey}", "messages", "members",
		"joined_members", "event/{eventId}", "context/{eventId}", "redact/{eventId}/{txnId}", "join", "leave", "invite", "kick",
		"ban", "unban", "typing/{userId}", "receipt/{receiptType}/{eventId}", "read_markers", "forget", "upgrade", "aliases"}
	for _, p := range paths {
		k.Routes([]web.Route{{Method: "PUT", Path: "/_matrix/client/v3/rooms/{roomId}/" + p, Handler: web.Authed(empty)}})
	}
	k.Routes([]web.Route{{Method: "PUT", Path: put + "{eventType}/{txnId}",
		Handler: web.Authed(func(context.Context, *web.Call, putIn) (web.Empty, error) { return web.Empty{}, nil })}})
	body := `{"messages":{"@bob:test":{"DEVICE":{"algorithm":"m.olm.v1.curve25519-aes-sha2","ciphertext":"` + strings.Repeat("A", 800) + `"}}}}`
	for name, path := range map[string]string{
		"sendToDevice":  put + "m.room.encrypted/m1234567890.1",
		"last of rooms": "/_matrix/client/v3/rooms/!room:test/upgrade",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPut, path, strings.NewReader(body))
				r.Header.Set("Authorization", "Bearer good")
				w := httptest.NewRecorder()
				k.Handler().ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
	b.Run("bare recorder", func(b *testing.B) {
		b.ReportAllocs()
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
		for b.Loop() {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPut, "/", strings.NewReader(body))
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	})
}
