package matrix

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxServerName is the longest name of the grammar: 255 characters of host,
// ':' and 5 digits. (The specification recommends 230 at most.)
const maxServerName = 255 + 1 + 5

// ParseServerName checks s against the grammar of server names: a DNS name of
// 1 to 255 characters or IPv4 literal or bracketed IPv6 literal, with an
// optional port of 1 to 5 digits. Appendices, "Server Name".
func ParseServerName(s string) (ServerName, error) {
	if len(s) > maxServerName {
		return "", fmt.Errorf("server name %q: too long", clip(s))
	}
	host, port := splitServerName(s)
	switch {
	case host == "":
		return "", fmt.Errorf("server name %q: no host", clip(s))
	case host[0] == '[':
		inside, ok := strings.CutSuffix(host[1:], "]")
		addr, err := netip.ParseAddr(inside)
		if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", fmt.Errorf("server name %q: not an IPv6 address", clip(s))
		}
	case len(host) > 255 || !isDNSName(host):
		return "", fmt.Errorf("server name %q: illegal host", clip(s))
	}
	if port != "" && !isPort(port) {
		return "", fmt.Errorf("server name %q: illegal port", clip(s))
	}
	return ServerName(s), nil
}

// Host is the name without its port; an IPv6 literal keeps its brackets.
func (s ServerName) Host() string {
	host, _ := splitServerName(string(s))
	return host
}

// Port is the port, and whether the name has one.
func (s ServerName) Port() (port int, ok bool) {
	_, text := splitServerName(string(s))
	if text == "" {
		return 0, false
	}
	port, err := strconv.Atoi(text[1:])
	return port, err == nil
}

// IsIPLiteral tells whether the host is an IPv4 or IPv6 address rather than a name.
func (s ServerName) IsIPLiteral() bool {
	host := s.Host()
	return strings.HasPrefix(host, "[") || isDottedQuad(host)
}

// splitServerName cuts a name before the ':' of its port.
func splitServerName(s string) (host, port string) {
	from := 0
	if strings.HasPrefix(s, "[") {
		from = strings.IndexByte(s, ']') + 1
		if from < len(s) && from > 0 {
			return s[:from], s[from:]
		}
		return s, ""
	}
	if i := strings.IndexByte(s, ':'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// isDNSName checks the characters of a host, and the numbers of one that looks
// like an IPv4 literal.
func isDNSName(s string) bool {
	digitsOnly := true
	for i := range len(s) {
		c := s[i]
		if '0' <= c && c <= '9' || c == '.' {
			continue
		}
		digitsOnly = false
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	if !digitsOnly || !isDottedQuad(s) {
		return true
	}
	for part := range strings.SplitSeq(s, ".") {
		if n, _ := strconv.Atoi(part); n > 255 {
			return false
		}
	}
	return true
}

// isDottedQuad tells whether s has the form of an IPv4 literal: four numbers
// of 1 to 3 digits.
func isDottedQuad(s string) bool {
	parts := 0
	for part := range strings.SplitSeq(s, ".") {
		if parts++; parts > 4 || len(part) < 1 || len(part) > 3 || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return parts == 4
}

// isPort checks ":" and 1 to 5 digits.
func isPort(s string) bool {
	return len(s) >= 2 && len(s) <= 6 && s[0] == ':' && strings.Trim(s[1:], "0123456789") == ""
}
