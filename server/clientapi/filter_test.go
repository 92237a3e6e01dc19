package clientapi_test

import (
	"fmt"
	"strings"
	"testing"

	"hearth/storage/matrix"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.register("alice"), s.register("bob")
	path := v3 + "/user/" + esc(a.id) + "/filter"
	const filter = `{"room":{"timeline":{"limit":10,"types":["m.room.message"],"not_senders":["@spam:x.test"]},"rooms":["!r:x.test"]},"event_format":"client","org.example.x":{"y":[1.5]}}`
	got := a.do("POST", path, " "+strings.ReplaceAll(filter, ",", " , ")).ok()
	id := got.str("filter_id")
	if id == "" || id[0] == '{' {
		t.Fatalf("got %s", got.raw)
	}
	if again := a.do("POST", path, filter).ok().str("filter_id"); again != id {
		t.Fatalf("the same filter is %s and %s", id, again)
	}
	if other := a.do("POST", path, `{}`).ok().str("filter_id"); other == id {
		t.Fatal("another filter has the same ID")
	}
	if down := a.do("GET", path+"/"+id, "").ok(); down.raw != filter {
		t.Fatalf("got %s", down.raw)
	}
	a.do("GET", v3+"/sync?filter="+id, "").ok()
	b.do("GET", path+"/"+id, "").fails(403, matrix.Forbidden)
	b.do("POST", path, filter).fails(403, matrix.Forbidden)
	b.do("GET", v3+"/user/"+esc(b.id)+"/filter/"+id, "").fails(404, matrix.NotFound)
	for _, none := range []string{"999", "x", "-1", "+1", "01", "99999999999999999999"} {
		a.do("GET", path+"/"+none, "").fails(404, matrix.NotFound)
	}
	s.do("", "POST", path, filter).fails(401, matrix.MissingToken)
}

func TestFilterRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.register("alice")
	path := v3 + "/user/" + esc(a.id) + "/filter"
	for _, bad := range []string{
		`{"presence":"x"}`, `{"room":{"timeline":"x"}}`, `{"room":{"state":[]}}`, `{"event_fields":"x"}`, `{"event_format":1}`,
		`{"room":{"timeline":{"senders":["x"]}}}`, `{"room":{"timeline":{"rooms":["x"]}}}`, `{"room":{"timeline":{"types":{}}}}`,
		`{"room":{"timeline":{"types":[1]}}}`, `{"room":{"timeline":{"limit":"x"}}}`, `{"room":{"timeline":{"limit":-1}}}`,
		`{"room":{"timeline":{"limit":1.5}}}`, `{"room":{"include_leave":"x"}}`, `{"account_data":{"not_senders":["x"]}}`, `[]`, `"x"`,
	} {
		a.do("POST", path, bad).fails(400, matrix.BadJSON)
	}
	a.do("POST", path, `{`).fails(400, matrix.NotJSON)
	a.do("POST", path, `{"x":"`+strings.Repeat("x", 65<<10)+`"}`).fails(413, matrix.TooLarge)
	a.do("POST", path, strings.Repeat(`{"x":`, 200)+"1"+strings.Repeat("}", 200)).fails(400, matrix.BadJSON)
}

func TestFiltersAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.register("alice")
	path := v3 + "/user/" + esc(a.id) + "/filter"
	var ids []string
	for i := range 201 {
		ids = append(ids, a.do("POST", path, fmt.Sprintf(`{"room":{"timeline":{"limit":%d}}}`, i)).ok().str("filter_id"))
	}
	a.do("GET", path+"/"+ids[0], "").fails(404, matrix.NotFound)
	a.do("GET", path+"/"+ids[1], "").ok()
	a.do("GET", path+"/"+ids[200], "").ok()
}
