package clientapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"slices"

	"hearth/server/account"
	"hearth/server/web"
	"hearth/storage/matrix"
)

//go:embed fallback.html
var fallbackHTML string

var fallbackPage = template.Must(template.New("fallback").Parse(fallbackHTML))

// fallbackDone tells the client, in the words of the specification, that the
// stage is complete.
const fallbackDone = `if (window.onAuthDone) {
  window.onAuthDone();
} else if (window.opener && window.opener.postMessage) {
  window.opener.postMessage("authDone", "*");
}`

// fallbackPolicy lets the page run that script and nothing else.
var fallbackPolicy = func() string {
	sum := sha256.Sum256([]byte(fallbackDone))
	return "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; " +
		"script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// fallback is what the page shows.
type fallback struct {
	Stage   string
	Session string
	Terms   []account.Policy
	Error   string
	Lost    bool // the session cannot be continued
	Done    bool
	Script  template.JS
}

// getFallback serves GET /_matrix/client/v3/auth/{type}/fallback/web: a page
// that completes one stage in a browser. Client-Server API, "Fallback".
func (a *API) getFallback(w http.ResponseWriter, _ *http.Request, c *web.Call) error {
	page, err := a.fallbackFor(c, c.Query.Get("session"))
	if err != nil {
		return err
	}
	return page.write(w, http.StatusOK)
}

func (a *API) fallbackFor(c *web.Call, session string) (*fallback, error) {
	stage := c.Vars["type"]
	known := []string{account.StageDummy, account.StagePassword, account.StageRegToken, account.StageTerms}
	if !slices.Contains(known, stage) {
		return nil, matrix.Errorf(matrix.NotFound, "there is no such stage")
	}
	if session == "" {
		return nil, matrix.Errorf(matrix.MissingParam, "the query parameter session is missing")
	}
	page := &fallback{Stage: stage, Session: session, Terms: a.Accounts.Terms(), Script: fallbackDone}
	page.Lost = !a.Accounts.Awaits(session, stage)
	return page, nil
}

// postFallback takes the page's form.
func (a *API) postFallback(w http.ResponseWriter, r *http.Request, c *web.Call) error {
	r.Body = http.MaxBytesReader(w, r.Body, smallBody)
	if err := r.ParseForm(); err != nil {
		return matrix.Errorf(matrix.BadJSON, "the form is not readable")
	}
	page, err := a.fallbackFor(c, r.PostForm.Get("session"))
	if err != nil {
		return err
	}
	if page.Lost {
		return page.write(w, http.StatusOK)
	}
	auth := account.Auth{
		Type: page.Stage, Session: page.Session,
		Password: matrix.Token(r.PostForm.Get("password")), Token: matrix.Token(r.PostForm.Get("token")),
	}
	if page.Stage == account.StageTerms && r.PostForm.Get("accept") == "" {
		page.Error = "You have to accept to go on."
		return page.write(w, http.StatusOK)
	}
	refusal, err := a.Accounts.CompleteStage(r.Context(), auth)
	if err != nil {
		return err
	}
	if refusal != nil {
		page.Error = refusal.Message
		return page.write(w, http.StatusUnauthorized)
	}
	page.Done = true
	return page.write(w, http.StatusOK)
}

func (p *fallback) write(w http.ResponseWriter, status int) error {
	var buf bytes.Buffer
	if err := fallbackPage.Execute(&buf, p); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", fallbackPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the client went away
	return nil
}
