package storage_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// TestPowerLoss writes from several goroutines, and at acknowledgements builds
// the files as a power failure would have left them at worst: what was synced.
// Everything acknowledged until then must be in them. The same test must find
// a loss with synchronous=NORMAL, or it would prove nothing.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	for setting, lossless := range map[string]bool{"FULL": true, "NORMAL": false} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			s := storagetest.Open(t, storagetest.Recorded, func(o *storage.Options) { storage.Synchronous(o, setting) })
			acks := writeAcknowledged(t, s, 8, storagetest.Scale(40))
			lost := 0
			for i := 0; i < len(acks); i += max(1, len(acks)/storagetest.Scale(12)) {
				lost += lostAt(t, s, acks[:i+1])
			}
			if lossless && lost > 0 {
				t.Errorf("%d acknowledged rows were lost", lost)
			}
			if !lossless && lost == 0 {
				t.Error("no loss found without syncs: the test cannot find one")
			}
		})
	}
}

// ack is an acknowledged row and the tape's length when its caller had the answer.
type ack struct {
	row  int64
	mark int
	pos  int64
}

// writeAcknowledged has writers commit rows, each its own numbers, and returns
// their acknowledgements in order of the tape.
func writeAcknowledged(t *testing.T, s *storage.Store, writers, each int) (acks []ack) {
	t.Helper()
	disk := storagetest.Disk(t, s)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				n := int64(w*each + i)
				var pos int64
				err := s.Write(context.Background(), "put", func(tx *storage.Tx) error {
					pos = tx.NextPos()
					return tx.Put(n, "v")
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acks = append(acks, ack{n, disk.Mark(), pos})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return acks
}

// lostAt builds the image as of the last of acks and counts what is missing.
func lostAt(t *testing.T, s *storage.Store, acks []ack) (lost int) {
	t.Helper()
	dir := t.TempDir()
	last := acks[len(acks)-1]
	if err := storagetest.Disk(t, s).Image(dir, last.mark); err != nil {
		t.Fatal(err)
	}
	r, err := storage.Open(context.Background(), storage.Options{Dir: dir, ServerName: storagetest.ServerName})
	if err != nil {
		t.Fatalf("the image of a power failure does not open: %v", err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	have := map[int64]bool{}
	for _, n := range names(t, r) {
		have[n] = true
	}
	for _, a := range acks {
		if a.mark <= last.mark && !have[a.row] {
			lost++
		}
		if have[a.row] && r.Pos() < a.pos {
			t.Errorf("position %d would be used again: the counter stands at %d", a.pos, r.Pos())
		}
	}
	for _, p := range r.Check(context.Background()) {
		t.Errorf("after a power failure: %s", p)
	}
	return lost
}

// TestEveryCutOfTheLog cuts the write-ahead log at, around and between its
// frames. What remains must be whole batches, hence whole units, from the first
// on. Each unit writes a pair of rows.
func TestEveryCutOfTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storagetest.OpenDir(t, dir)
	const units, header, frame = 12, 32, 24 + pageSize
	begin := int(s.Stats().WALBytes-header) / frame // before it lies what made the file
	for i := range int64(units) {
		err := s.Write(context.Background(), "pair", func(tx *storage.Tx) error {
			if err := tx.Put(2*i, "v"); err != nil {
				return err
			}
			return tx.Put(2*i+1, "v")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wal, err := os.ReadFile(filepath.Join(dir, storage.FileName+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	frames := (len(wal) - header) / frame
	if frames < begin+units {
		t.Fatalf("the log has %d frames: not what this test is about", frames)
	}
	seen := map[int64]bool{}
	at := func(cut int) {
		if cut < 0 || cut > len(wal) {
			return
		}
		crashed := t.TempDir()
		copyFiles(t, dir, crashed)
		if err := os.Truncate(filepath.Join(crashed, storage.FileName+"-wal"), int64(cut)); err != nil {
			t.Fatal(err)
		}
		r, err := storage.Open(context.Background(), storage.Options{Dir: crashed, ServerName: storagetest.ServerName})
		if err != nil {
			// The first migrations are in the log, too: with too little of it the
			// file is new, and opens.
			t.Fatalf("cut at %d: %v", cut, err)
		}
		n := rowsFrom0(t, r)
		if n%2 != 0 {
			t.Errorf("cut at %d: half a unit, %d rows", cut, n)
		}
		seen[n] = true
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	for f := range frames + 1 {
		for _, d := range []int{-1, 0, frame / 2} {
			if f >= begin || d == 0 && f%16 == 0 {
				at(header + f*frame + d)
			}
		}
	}
	for n := int64(0); n <= 2*units; n += 2 {
		if !seen[n] {
			t.Errorf("no cut left %d rows", n)
		}
	}
}
