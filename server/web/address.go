package web

import (
	"net/http"
	"net/netip"
	"strings"
)

// remoteIP is the address of the client: of the connection, unless that is a
// trusted proxy's, which tells in X-Forwarded-For. The rightmost address that
// is not a trusted proxy counts; what stands left of it the client may have
// made up. A Unix socket is only reachable by who runs the server's proxy, and
// trusted.
func remoteIP(r *http.Request, trusted []netip.Prefix) string {
	peer, unix := peerAddr(r)
	if !unix && !contains(trusted, peer) {
		return peer.String()
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		peer = hop.Unmap()
		if !contains(trusted, peer) {
			break
		}
	}
	if !peer.IsValid() {
		return ""
	}
	return peer.String()
}

func peerAddr(r *http.Request) (addr netip.Addr, unix bool) {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, true
	}
	return ap.Addr().Unmap(), false
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
