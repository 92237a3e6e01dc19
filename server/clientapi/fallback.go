package clientapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"

	"hearth/server/account"
	"hearth/server/web"
	"hearth/storage/matrix"
)

var (
	//go:embed fallback.html
	fallbackHTML string
	//go:embed loginpage.html
	loginHTML string
	//go:embed loginpage.js
	loginScript string

	fallbackPage = template.Must(template.New("fallback").Parse(fallbackHTML))
	loginPage    = template.Must(template.New("login").Parse(loginHTML))
)

// fallbackDone tells the client, in the words of the specification, that the
// stage is complete.
const fallbackDone = `if (window.onAuthDone) {
  window.onAuthDone();
} else if (window.opener && window.opener.postMessage) {
  window.opener.postMessage("authDone", "*");
}`

// policyFor lets a page run one script and nothing else.
func policyFor(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; " +
		"script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

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
	return writePage(w, status, fallbackPage, fallbackDone, p)
}

// getLoginPage serves GET /_matrix/static/client/login/: a page that logs in for
// clients that know no login type. Client-Server API, "Login Fallback".
func (a *API) getLoginPage(w http.ResponseWriter, _ *http.Request, _ *web.Call) error {
	return writePage(w, http.StatusOK, loginPage, loginScript, struct {
		Server matrix.ServerName
		Script template.JS
	}{a.Store.ServerName(), template.JS(loginScript)}) //nolint:gosec // our own file
}

func writePage(w http.ResponseWriter, status int, page *template.Template, script string, data any) error {
	var buf bytes.Buffer
	if err := page.Execute(&buf, data); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policyFor(script))
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the client went away
	return nil
}
