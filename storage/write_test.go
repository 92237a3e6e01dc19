package storage

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

var (
	testPut   = stmt(`INSERT INTO meta (name, value) VALUES (?, ?)`)
	testGet   = stmt(`SELECT value FROM meta WHERE name = ?`)
	testCount = stmt(`SELECT count(*) FROM meta`)
)

func TestSmoke(t *testing.T) {
	s, err := Open(context.Background(), Options{Dir: t.TempDir(), ServerName: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 100 {
				err := s.Write(context.Background(), "t", func(tx *Tx) error {
					tx.NextPos()
					_, err := tx.exec(testPut, fmt.Sprint(g, "/", i), "v")
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%+v", s.Stats())
	err = s.Read(context.Background(), "r", func(rx *Rx) error {
		var n int
		if err := rx.row(testCount, nil, &n); err != nil {
			return err
		}
		t.Log(n, rx.Pos(), rx.Clock())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
