package server

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSystemMemory(t *testing.T) {
	t.Parallel()
	const meminfo = "MemTotal:        1000000 kB\nMemFree: 1 kB\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing":     {nil, 0},
		"machine":     {map[string]string{"proc/meminfo": meminfo}, 1000000 << 10},
		"version 2":   {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "268435456\n"}, 256 << 20},
		"no limit":    {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "max\n"}, 1000000 << 10},
		"version 1":   {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 256 << 20},
		"1, no limit": {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1000000 << 10},
		"around the own group": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/system.slice/hearth.service\n",
			"sys/fs/cgroup/system.slice/memory.max": "134217728", "sys/fs/cgroup/system.slice/hearth.service/memory.max": "max",
		}, 128 << 20},
	} {
		root := t.TempDir()
		for file, text := range tt.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := systemMemory(root); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func TestHeapLimitLeavesRoomForCaches(t *testing.T) {
	t.Parallel()
	if got, want := heapLimit(256<<20, 2), int64(256-16-8-16)<<20; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if got := heapLimit(10<<20, 64); got != leastHeap {
		t.Errorf("got %d, want %d", got, leastHeap)
	}
}
