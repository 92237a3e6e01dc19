package inbound

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// BenchmarkProcess applies transactions of 20 EDUs, of one server and of as
// many servers as there are goroutines.
func BenchmarkProcess(b *testing.B) {
	for _, servers := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d servers", servers), func(b *testing.B) {
			s := storagetest.Open(b)
			err := s.Write(b.Context(), "test", func(tx *storage.Tx) error {
				num, err := tx.AddUser(storage.User{Localpart: "bob"})
				if err == nil {
					_, err = tx.AddDevice(num, "B1", "")
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			p := New(s, inbox.New(s, inbox.Options{}, nil), Options{Waiting: 1 << 20}, nil)
			var serial atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := serial.Add(1)
					origin := matrix.ServerName(fmt.Sprintf("s%d.example", n%int64(servers)))
					t := Transaction{Origin: string(origin)}
					for i := range 20 {
						e := map[string]any{"edu_type": "m.direct_to_device", "content": map[string]any{
							"sender": "@alice:" + string(origin), "type": "m.test", "message_id": fmt.Sprint(n, i),
							"messages": map[string]any{bob: map[string]any{"B1": map[string]any{"n": n}}},
						}}
						text, err := json.Marshal(e)
						if err != nil {
							b.Error(err)
						}
						t.EDUs = append(t.EDUs, text)
					}
					if _, err := p.Process(b.Context(), origin, fmt.Sprint(n), t); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
