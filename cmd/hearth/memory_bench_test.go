package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"hearth/server/testserver"
)

// BenchmarkIdleMemory reports what the binary holds in memory after it has
// started and logged a few clients in, and what 1,000 waiting polls add.
func BenchmarkIdleMemory(b *testing.B) {
	for b.Loop() {
		p := newVictim(b)
		p.start()
		site := testserver.NewSite(b, p.name, p.url)
		b.ReportMetric(rss(b, p)/(1<<20), "start-MiB")
		site.Register("alice")
		const polls = 1000
		var c *testserver.Client
		for i := range polls {
			if i%8 == 0 {
				c = site.Login("alice")
				c.Sync()
			}
			if i == 8 {
				b.ReportMetric(rss(b, p)/(1<<20), "used-MiB")
			}
			openPoll(b, c)
		}
		b.ReportMetric(rss(b, p)/(1<<20), "polls-MiB")
		p.kill()
	}
}

// openPoll leaves a long poll waiting until the benchmark ends.
func openPoll(b *testing.B, c *testserver.Client) {
	b.Helper()
	host := strings.TrimPrefix(c.Site().URL(), "http://")
	conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", host)
	if err == nil {
		_, err = fmt.Fprintf(conn, "GET /_matrix/client/v3/sync?timeout=170000&since=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n",
			c.Since(), host, c.Token.Reveal())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
}

// rss is the resident memory of the process in bytes.
func rss(b *testing.B, p *victim) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		b.Skip("resident memory is read from /proc")
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages * os.Getpagesize())
}
