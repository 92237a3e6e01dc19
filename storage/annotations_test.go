package storage_test

import (
	"errors"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

func TestAnnotations(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	one := storage.Annotation{Target: "$x", Sender: alice, Type: "m.reaction", Key: "👍"}
	others := []storage.Annotation{one, one, one, one, one}
	others[0].Target, others[1].Sender, others[2].Type, others[3].Key = "$y", bob, "m.other", "👎"
	others[4].Type, others[4].Key = "m.reactio", "n👍" // where one ends and the next begins counts
	has := func(a storage.Annotation) (is bool) {
		t.Helper()
		r.read(func(rx *storage.Rx) (err error) {
			is, err = rx.Annotated(a)
			return err
		})
		return is
	}
	annotate := func() (e storage.Event) {
		t.Helper()
		within(t, s, func(tx *storage.Tx) (err error) {
			e, err = r.sendIn(tx, "m.reaction", nil, alice, `{}`)
			return errors.Join(err, tx.AddAnnotation(one, e.Num))
		})
		return e
	}
	if has(one) {
		t.Error("there before it was made")
	}
	first := annotate()
	for _, a := range others {
		if has(a) {
			t.Errorf("%+v is taken for %+v", a, one)
		}
	}
	if !has(one) {
		t.Error("not remembered")
	}
	redact := func(e storage.Event) {
		within(t, s, func(tx *storage.Tx) error { return tx.Redact(e.Num, e.Num) })
	}
	redact(first)
	if has(one) {
		t.Error("redacted, and there all the same")
	}
	annotate()
	if !has(one) {
		t.Error("not remembered a second time")
	}
	within(t, s, func(tx *storage.Tx) error { return tx.PurgeRoom(r.num) })
	for left := 1; left != 0; {
		within(t, s, func(tx *storage.Tx) (err error) {
			left, err = tx.PurgeSome(150)
			return err
		})
	}
	if got := s.Texts(t, `SELECT count(*) FROM annotations`); got != "0" {
		t.Errorf("%s are left of a room that was purged", got)
	}
}
