package inbox

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"

	"hearth/storage/matrix"
)

// GroupOf names what a server counts as when room is made: names and addresses
// that one owner gets in bulk are one group. That is the registrable domain
// ("example.co.uk" for "matrix.example.co.uk:8448"), the /24 of an IPv4 and the
// /48 of an IPv6 literal. Our own server is the group "".
func GroupOf(server, ours matrix.ServerName) string {
	if server == ours {
		return ""
	}
	host := hostOf(string(server))
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return blockOf(addr.Unmap())
	}
	host = strings.ToLower(strings.TrimRight(host, "."))
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil { // a public suffix itself, or a name of one label
		return host
	}
	return domain
}

func hostOf(server string) string {
	if end := strings.IndexByte(server, ']'); end >= 0 {
		return server[:end+1]
	}
	host, _, _ := strings.Cut(server, ":")
	return host
}

func blockOf(addr netip.Addr) string {
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	block, err := addr.Prefix(bits)
	if err != nil {
		return addr.String()
	}
	return block.String()
}
