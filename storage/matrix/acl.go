package matrix

import (
	"strings"
	"unicode/utf8"
)

// TypeServerACL is the type of the event that says which servers may take part in a room.
const TypeServerACL = "m.room.server_acl"

// ServerACL is the content of m.room.server_acl.
type ServerACL struct {
	Allow           []string // globs, lower case
	Deny            []string
	AllowIPLiterals bool
}

// ParseServerACL reads the content of m.room.server_acl, a canonical JSON
// object. Entries that are not strings are left out; without an allow list
// every server is denied.
func ParseServerACL(content []byte) *ServerACL {
	return &ServerACL{
		Allow:           globsOf(field(content, "allow")),
		Deny:            globsOf(field(content, "deny")),
		AllowIPLiterals: string(field(content, "allow_ip_literals")) != "false",
	}
}

func globsOf(v []byte) (globs []string) {
	for item := range elementsOf(v) {
		if text, ok := textOf(item); ok {
			globs = append(globs, strings.ToLower(text))
		}
	}
	return globs
}

// Allows tells whether a server may take part in the room. Its port does not
// count, nor does case. Client-Server API, "Server Access Control Lists (ACLs) for rooms".
func (a *ServerACL) Allows(server ServerName) bool {
	host := strings.ToLower(server.Host())
	if !a.AllowIPLiterals && server.IsIPLiteral() {
		return false
	}
	return !matchesAny(a.Deny, host) && matchesAny(a.Allow, host)
}

func matchesAny(globs []string, s string) bool {
	for _, glob := range globs {
		if MatchGlob(glob, s) {
			return true
		}
	}
	return false
}

// MatchGlob tells whether a glob matches the whole of s: '*' is any number of
// characters, '?' exactly one. It takes at most len(glob) × len(s) steps.
// Appendices, "Glob-style matching".
func MatchGlob(glob, s string) bool {
	g, i := 0, 0
	star, retry := -1, 0 // after the last '*', and where in s to try next
	for i < len(s) {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case g < len(glob) && glob[g] == '*':
			g++
			star, retry = g, i
		case g < len(glob) && glob[g] == '?':
			g++
			i += size
		case strings.HasPrefix(glob[min(g, len(glob)):], s[i:i+size]):
			g += size
			i += size
		case star >= 0:
			_, size = utf8.DecodeRuneInString(s[retry:])
			retry += size
			g, i = star, retry
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
