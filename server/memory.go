package server

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"hearth/server/config"
)

// SQLite's caches lie outside of what Go counts. So much may they take: the
// writer's and each reader's page cache, and the WAL index.
const (
	writerCache = 16 << 20
	readerCache = 8 << 20
	otherCache  = 8 << 20
	leastHeap   = 32 << 20
)

// LimitMemory keeps the process below [limits] memory, or, if that is 0, below
// nine tenths of what its container or machine has. It acts on the whole
// process, so it is for main to call, and it leaves a limit alone that the
// runtime was given by GOMEMLIMIT.
func LimitMemory(cfg config.Limits, log *zap.Logger) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return
	}
	total := int64(cfg.Memory)
	if total == 0 {
		total = systemMemory("/") / 10 * 9
	}
	if total == 0 {
		return // an operating system that does not tell
	}
	heap := heapLimit(total, runtime.GOMAXPROCS(0))
	debug.SetMemoryLimit(heap)
	log.Debug("memory limit", zap.Int64("total", total), zap.Int64("heap", heap))
}

// heapLimit is what of the whole may be Go's.
func heapLimit(total int64, cores int) int64 {
	caches := int64(writerCache + otherCache + readerCache*max(2, cores))
	return max(total-caches, leastHeap)
}

// systemMemory is the memory of the container or machine in bytes, the least
// of all limits found under root; 0 where Linux's files do not exist.
func systemMemory(root string) int64 {
	least := int64(0)
	consider := func(n int64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	consider(memTotal(filepath.Join(root, "proc/meminfo")))
	for _, dir := range cgroupDirs(root) {
		consider(number(filepath.Join(dir, "memory.max")))            // version 2
		consider(number(filepath.Join(dir, "memory.limit_in_bytes"))) // version 1
	}
	return least
}

// cgroupDirs are the directories of the process's control group and of those
// around it, each of which may set a limit.
func cgroupDirs(root string) []string {
	mounts := []string{filepath.Join(root, "sys/fs/cgroup"), filepath.Join(root, "sys/fs/cgroup/memory")}
	dirs := append([]string(nil), mounts...)
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return dirs
	}
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, path, ok := strings.Cut(rest, ":")
		for ; ok && len(path) > 1; path = filepath.Dir(path) {
			for _, m := range mounts {
				dirs = append(dirs, filepath.Join(m, path))
			}
		}
	}
	return dirs
}

func memTotal(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

// number reads a file of one number; "max" and absence are 0.
func number(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
