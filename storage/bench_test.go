package storage

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/storage/matrix"
)

// benchContent is the size of an encrypted room key.
var benchContent = []byte(`{"ciphertext":"` + strings.Repeat("x", 900) + `"}`)

// sendArgs are the two rows of one durable send: the message and the record.
func sendArgs(pos, device, n int64) (message, record []any) {
	scope := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
	return []any{pos, device, int64(1), "m.room.encrypted", benchContent, int64(len(benchContent)), int64(1)},
		[]any{scope[:], device, n, []byte("{}"), int64(1)}
}

// benchStore opens a store with a user who has devices.
func benchStore(b *testing.B, dir string, devices int) (*Store, []int64) {
	b.Helper()
	s, err := Open(context.Background(), Options{Dir: dir, ServerName: "x"})
	if err != nil {
		b.Fatal(err)
	}
	var nums []int64
	err = s.Write(context.Background(), "setup", func(tx *Tx) error {
		user, err := tx.AddUser(User{Localpart: "a"})
		if err != nil {
			return err
		}
		for i := range devices {
			n, err := tx.AddDevice(user, matrixDevice(i), "")
			if err != nil {
				return err
			}
			nums = append(nums, n)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return s, nums
}

// BenchmarkWrite commits one durable send per unit from 64 goroutines, and then
// has a plain program on the same driver commit the same rows in batches of the
// same size, one goroutine, nothing around it. Aims: ratio at least 0.5, units
// per COMMIT at least 8.
func BenchmarkWrite(b *testing.B) {
	const writers = 64
	s, devices := benchStore(b, b.TempDir(), writers)
	before := s.Stats()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	began := time.Now()
	for w := range writers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				err := s.Write(context.Background(), "send", func(tx *Tx) error {
					message, record := sendArgs(tx.NextPos(), devices[w], n)
					if _, err := tx.exec(insertToDevice, message...); err != nil {
						return err
					}
					_, err := tx.exec(addTransaction, record...)
					return err
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	b.StopTimer()
	after := s.Stats()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	batch := float64(after.Units-before.Units) / float64(after.Commits-before.Commits)
	plain := plainProgram(b, writers, max(1, int(batch+0.5)))
	b.ReportMetric(batch, "units/COMMIT")
	b.ReportMetric(float64(b.N)/took.Seconds(), "units/s")
	b.ReportMetric(float64(b.N)/plain.Seconds(), "plain/s")
	b.ReportMetric(plain.Seconds()/took.Seconds(), "ratio")
}

// plainProgram writes b.N sends in batches and returns how long it took.
func plainProgram(b *testing.B, devices, batch int) time.Duration {
	b.Helper()
	dir := b.TempDir()
	s, nums := benchStore(b, dir, devices)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	c, err := openConn(dsn{path: filepath.Join(dir, FileName), synchronous: "FULL"}.writer())
	if err != nil {
		b.Fatal(err)
	}
	compiled := map[*statement]*prepared{}
	for _, st := range []*statement{beginImmediate, insertToDevice, addTransaction, raisePosition, commitNow} {
		if compiled[st], err = c.prepare(st.sql); err != nil {
			b.Fatal(err)
		}
	}
	exec := func(st *statement, args []any) {
		named := make([]driver.NamedValue, len(args))
		for i, a := range args {
			named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
		}
		if _, err := compiled[st].stmt.ExecContext(background, named); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now()
	for n := int64(1); n <= int64(b.N); {
		exec(beginImmediate, nil)
		for i := 0; i < batch && n <= int64(b.N); i, n = i+1, n+1 {
			message, record := sendArgs(1000+n, nums[n%int64(devices)], n)
			exec(insertToDevice, message)
			exec(addTransaction, record)
		}
		exec(raisePosition, []any{1000 + n, int64(1), int64(1)})
		exec(commitNow, nil)
	}
	took := time.Since(began)
	if err := c.close(); err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkRead is a snapshot and a point read of one row.
func BenchmarkRead(b *testing.B) {
	s, _ := benchStore(b, b.TempDir(), 1)
	for name, read := range map[string]func(context.Context, string, func(*Rx) error) error{"snapshot": s.Read, "point": s.Point} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var name string
				err := read(context.Background(), "bench", func(rx *Rx) error { return rx.row(readMeta, []any{metaServer}, &name) })
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func matrixDevice(i int) matrix.DeviceID { return matrix.DeviceID(fmt.Sprint("D", i)) }
