package matrix

import (
	"fmt"
	"net/netip"
	"strings"
)

// ParseServerName checks s against the grammar of server names: a DNS name or
// IPv4 literal or bracketed IPv6 literal, with an optional port of 1 to 5
// digits, 230 bytes at most. Appendices, "Server Name".
func ParseServerName(s string) (ServerName, error) {
	if len(s) > 230 {
		return "", fmt.Errorf("server name %q: longer than 230 bytes", clip(s))
	}
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", fmt.Errorf("server name %q: no closing bracket", clip(s))
		}
		host, port = s[:end+1], s[end+1:]
		addr, err := netip.ParseAddr(host[1:end])
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", fmt.Errorf("server name %q: not an IPv6 address", clip(s))
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		host, port = s[:i], s[i:]
	}
	if host == "" {
		return "", fmt.Errorf("server name %q: no host", clip(s))
	}
	if host[0] != '[' && !isDNSName(host) {
		return "", fmt.Errorf("server name %q: illegal character in host", clip(s))
	}
	if port != "" && !isPort(port) {
		return "", fmt.Errorf("server name %q: illegal port", clip(s))
	}
	return ServerName(s), nil
}

func isDNSName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.') {
			return false
		}
	}
	return true
}

// isPort checks ":" and 1 to 5 digits.
func isPort(s string) bool {
	if len(s) < 2 || len(s) > 6 || s[0] != ':' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
