package storage_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

func record(t testing.TB, s *storage.Store, scope storage.TransactionScope, response string) {
	t.Helper()
	err := s.Write(context.Background(), "record", func(tx *storage.Tx) error {
		return tx.RecordTransaction(scope, []byte(response))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// recorded is what a scope was answered; "" where it was not.
func recorded(t testing.TB, s *storage.Store, scope storage.TransactionScope) (response string) {
	t.Helper()
	err := s.Read(context.Background(), "find", func(rx *storage.Rx) error {
		b, err := rx.FindTransaction(scope)
		response = string(b)
		return err
	})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		t.Fatal(err)
	}
	return response
}

// addDevice makes a user with one device.
func addDevice(t testing.TB, s *storage.Store, localpart string) (num int64) {
	t.Helper()
	err := s.Write(context.Background(), "add device", func(tx *storage.Tx) error {
		user, err := tx.AddUser(storage.User{Localpart: localpart})
		if err == nil {
			num, err = tx.AddDevice(user, "D", "")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return num
}

func TestTransactionScopes(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	d1, d2 := addDevice(t, s, "alice"), addDevice(t, s, "bob")
	scope := storage.TransactionScope{
		Device: d1, Method: "PUT", Template: "/sendToDevice/{eventType}/{txnId}",
		Vars: map[string]string{"eventType": "m.test", "txnId": "1"},
	}
	record(t, s, scope, `{"first":1}`)
	if got := recorded(t, s, scope); got != `{"first":1}` {
		t.Errorf("got %q, want the response", got)
	}
	vars := func(k1, v1, k2, v2 string) storage.TransactionScope {
		other := scope
		other.Vars = map[string]string{k1: v1, k2: v2}
		return other
	}
	for name, other := range map[string]storage.TransactionScope{
		"device":         {Device: d2, Method: scope.Method, Template: scope.Template, Vars: scope.Vars},
		"principal":      {Principal: "bridge", Method: scope.Method, Template: scope.Template, Vars: scope.Vars},
		"method":         {Device: d1, Method: "POST", Template: scope.Template, Vars: scope.Vars},
		"template":       {Device: d1, Method: scope.Method, Template: "/other/{eventType}/{txnId}", Vars: scope.Vars},
		"variable":       vars("eventType", "m.test", "txnId", "2"),
		"type":           vars("eventType", "m.test2", "txnId", "1"),
		"moved boundary": vars("eventType", "m.testtxnId", "txnId", "1"),
		"swapped":        vars("eventType", "1", "txnId", "m.test"),
		"moved method":   {Device: d1, Method: "PUT/", Template: scope.Template[1:], Vars: scope.Vars},
	} {
		if got := recorded(t, s, other); got != "" {
			t.Errorf("%s: got %q, want another transaction", name, got)
		}
	}
	copied := scope
	copied.Vars = maps.Clone(scope.Vars)
	err := s.Write(t.Context(), "again", func(tx *storage.Tx) error { return tx.RecordTransaction(copied, []byte(`{}`)) })
	if !errors.Is(err, storage.ErrConflict) {
		t.Errorf("recorded twice: got %v, want ErrConflict", err)
	}
}

func TestTransactionsGoWithTheirDevice(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	device := addDevice(t, s, "alice")
	theirs := storage.TransactionScope{Device: device, Vars: map[string]string{"txnId": "1"}}
	other := storage.TransactionScope{Principal: "other.test", Vars: map[string]string{"txnId": "1"}}
	record(t, s, theirs, `{}`)
	record(t, s, other, `{}`)
	if err := s.Write(t.Context(), "delete", func(tx *storage.Tx) error { return tx.DeleteDevice(device) }); err != nil {
		t.Fatal(err)
	}
	if got := recorded(t, s, theirs); got != "" {
		t.Errorf("got %q, want nothing of a deleted device", got)
	}
	if got := recorded(t, s, other); got != `{}` {
		t.Errorf("got %q, want what is not the device's", got)
	}
}

func TestTransactionResponseIsBounded(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	err := s.Write(t.Context(), "record", func(tx *storage.Tx) error {
		return tx.RecordTransaction(storage.TransactionScope{Principal: "x"}, make([]byte, 64<<10+1))
	})
	if err == nil {
		t.Error("a response of more than 64 KiB was kept")
	}
}

func TestTransactionsPerDeviceAreBounded(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	device := addDevice(t, s, "alice")
	scope := func(id string) storage.TransactionScope {
		return storage.TransactionScope{Device: device, Vars: map[string]string{"txnId": id}}
	}
	record(t, s, scope("oldest"), `{}`)
	if err := s.Write(t.Context(), "age", func(tx *storage.Tx) error { return tx.SkipTransactions(device, 99_000) }); err != nil {
		t.Fatal(err)
	}
	record(t, s, scope("young"), `{}`)
	if err := s.Write(t.Context(), "age", func(tx *storage.Tx) error { return tx.SkipTransactions(device, 100_999) }); err != nil {
		t.Fatal(err)
	}
	record(t, s, scope("youngest"), `{}`)
	if recorded(t, s, scope("oldest")) != "" || recorded(t, s, scope("young")) == "" || recorded(t, s, scope("youngest")) == "" {
		t.Error("want the oldest gone and the others there")
	}
}
