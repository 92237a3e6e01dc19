package inbound

import (
	"fmt"
	"strings"
	"testing"
)

// TestBadEDU: an EDU that no server may send is dropped and counted; the good
// ones before and behind it arrive.
func TestBadEDU(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	want := ""
	swap := func(old, with string) string { return strings.Replace(direct("bad", `{"bad":1}`), old, with, 1) }
	for name, bad := range map[string]string{
		"not an object":            `5`,
		"no type":                  `{"content":{}}`,
		"type of EDU: number":      `{"edu_type":5,"content":{}}`,
		"no content":               `{"edu_type":"m.direct_to_device"}`,
		"content: list":            `{"edu_type":"m.direct_to_device","content":[]}`,
		"content: null":            `{"edu_type":"m.direct_to_device","content":null}`,
		"sender of another server": swap("@alice:peer.example", "@alice:third.example"),
		"sender of ours":           swap("@alice:peer.example", bob),
		"sender with a port":       swap("@alice:peer.example", "@alice:peer.example:443"),
		"sender is no user":        swap("@alice:peer.example", "alice"),
		"sender is too long":       swap("@alice", "@"+strings.Repeat("a", 256)),
		"no sender":                swap(`"sender":"@alice:peer.example",`, ``),
		"sender: number":           swap(`"@alice:peer.example"`, `5`),
		"no event type":            swap(`"type":"m.test",`, ``),
		"empty event type":         swap("m.test", ""),
		"long event type":          swap("m.test", strings.Repeat("x", 256)),
		"NUL in event type":        swap("m.test", `m\u0000`),
		"no message_id":            swap(`"message_id":"bad",`, ``),
		"empty message_id":         swap(`"message_id":"bad"`, `"message_id":""`),
		"long message_id":          swap(`"message_id":"bad"`, `"message_id":"`+strings.Repeat("x", 256)+`"`),
		"message_id: null":         swap(`"message_id":"bad"`, `"message_id":null`),
		"no messages":              swap(`"messages"`, `"x"`),
		"messages: list":           edu("bad", `[]`),
		"messages: null":           edu("bad", `null`),
		"user: list":               edu("bad", `{"`+bob+`":[]}`),
		"user: null":               edu("bad", `{"`+bob+`":null}`),
		"message: string":          edu("bad", `{"`+bob+`":{"B1":"x"}}`),
		"message: null":            edu("bad", `{"`+bob+`":{"*":null}}`),
		"too many devices":         edu("bad", `{"`+bob+`":`+devices(maxDevices+1)+`}`),
	} {
		before := w.proc.Counts()
		first, last := fmt.Sprintf(`{"first":%q}`, name), fmt.Sprintf(`{"last":%q}`, name)
		w.deliver(name, direct("1", first), bad, direct("2", last))
		want += first + " " + last + " "
		w.wantWaiting("B1", strings.TrimSpace(want))
		c := w.proc.Counts()
		if c.Dropped-before.Dropped != 1 || c.EDUs-before.EDUs != 2 || c.Ignored != 0 {
			t.Errorf("%s: counted %+v after %+v", name, c, before)
		}
	}
	w.wantWaiting("B2", "")
}

func devices(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"D%d":{}`, i)
	}
	return "{" + b.String()[1:] + "}"
}

// TestRecipients: what is not for a device here is left out, silently, and what
// is bad in a message concerns that message alone.
func TestRecipients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.deliver("t",
		edu("1", `{"`+bob+`":{"*":{"n":"all"},"B2":{"n":"own"},"NOSUCH":{},"":{},"`+strings.Repeat("x", 256)+`":{}}}`),
		edu("2", `{"@nobody:`+string(ours)+`":{"*":{}},"@bob:third.example":{"B1":{}},"not a user":5,"`+bob+`":{"B1":{"n":2}}}`),
		edu("3", `{"`+bob+`":{"B1":[],"B2":{"n":3}}}`),
		edu("4", `{"@bob:third.example":{"B1":{}}}`),
		edu("5", `{}`),
		edu(strings.Repeat("é", 127), `{"`+bob+`":{"B2":{"n":"long ID"}}}`),
		edu("6", `{"`+bob+`":`+devices(maxDevices)+`}`),
		`{"edu_type":"m.typing","content":{}}`, `{"edu_type":"org.example.new","content":5}`, `{"edu_type":"m.presence"}`,
	)
	w.wantWaiting("B1", `{"n":"all"} {"n":2}`)
	w.wantWaiting("B2", `{"n":"own"} {"n":3} {"n":"long ID"}`)
	if c := w.proc.Counts(); c.Dropped != 1 || c.Ignored != 3 || c.EDUs != 5 {
		t.Errorf("counted %+v", c)
	}
}

// TestContentIsKeptAsReceived to the byte: numbers above all, which a client
// may have signed.
func TestContentIsKeptAsReceived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	const content = `{"z":1.0,"a":9007199254740993,"e":1e2,"é":"\u00e9\/\ud83d\ude00"}`
	w.deliver("t", direct("1", content))
	w.wantWaiting("B1", content)
}
