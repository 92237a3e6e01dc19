package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"hearth/storage/matrix"
)

// defaultPort is where a server listens that names no port.
const defaultPort = 8448

// Resolver looks names up. It is [net.Resolver] outside of tests.
type Resolver interface {
	// LookupNetIP lists the addresses of a host; network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	// LookupSRV lists the records of _service._proto.name in the order to try them.
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Target says where a server is reached, and as whom.
type Target struct {
	Host      string     // of the Host header
	CertName  string     // host name or IP address its certificate must be for
	Endpoints []Endpoint // where to connect, in order
}

// Endpoint is a host name or IP address with a port.
type Endpoint struct {
	Host string
	Port uint16
}

// Resolve finds where to send requests for a server. Answers of well-known
// look-ups are cached; DNS is asked each time a connection is made.
// Server-Server API, "Resolving server names"; the numbers are its steps.
func (c *Client) Resolve(ctx context.Context, server matrix.ServerName) (Target, error) {
	host, port, hasPort := splitServerName(server)
	if isIPLiteral(host) || hasPort { // 1 and 2
		return direct(server, host, port), nil
	}
	delegated, err := c.wellKnown.lookup(ctx, host) // 3
	if err != nil {
		return Target{}, err
	}
	if delegated == "" { // 4 to 6
		return c.viaSRV(ctx, host)
	}
	host, port, hasPort = splitServerName(delegated)
	if isIPLiteral(host) || hasPort { // 3.1 and 3.2
		return direct(delegated, host, port), nil
	}
	return c.viaSRV(ctx, host) // 3.3 to 3.5
}

// direct is the target of a name that says all by itself.
func direct(name matrix.ServerName, host string, port uint16) Target {
	bare := strings.Trim(host, "[]")
	return Target{Host: string(name), CertName: bare, Endpoints: []Endpoint{{bare, port}}}
}

// viaSRV finds a host without a port: SRV records, first those of the
// registered service name, then the deprecated ones, then port 8448.
// A look-up that fails counts as one without records: many resolvers answer
// so for names with underscores, and the certificate decides in the end.
func (c *Client) viaSRV(ctx context.Context, host string) (Target, error) {
	t := Target{Host: host, CertName: host}
	for _, service := range []string{"matrix-fed", "matrix"} {
		_, records, err := c.resolver.LookupSRV(ctx, service, "tcp", host)
		if ctx.Err() != nil {
			return Target{}, ctx.Err()
		}
		if err != nil || len(records) == 0 {
			continue
		}
		for _, r := range records {
			if name := strings.TrimSuffix(r.Target, "."); name != "" {
				t.Endpoints = append(t.Endpoints, Endpoint{name, r.Port})
			}
		}
		if t.Endpoints == nil { // a target of "." says: decidedly not here (RFC 2782)
			return Target{}, fmt.Errorf("%s says in DNS that it runs no server", host)
		}
		return t, nil
	}
	t.Endpoints = []Endpoint{{host, defaultPort}}
	return t, nil
}

// splitServerName takes a valid server name apart. The port is 8448 where
// there is none, and 0 where it is none that can exist.
func splitServerName(s matrix.ServerName) (host string, port uint16, hasPort bool) {
	name := string(s)
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
		n, err := strconv.ParseUint(name[i+1:], 10, 16)
		if err != nil {
			n = 0
		}
		return name[:i], uint16(n), true
	}
	return name, defaultPort, false
}

func isIPLiteral(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// connectTries is how many endpoints that do not answer are waited for.
const connectTries = 4

// connect opens a TCP connection to the first endpoint that takes one. However
// many there are, it ends in a few times the patience for one: dials go on when
// the request that began them is over.
func (c *Client) connect(ctx context.Context, endpoints []Endpoint) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTries*c.connectTimeout)
	defer cancel()
	var errs []error
	for _, e := range endpoints {
		if e.Port == 0 {
			errs = append(errs, fmt.Errorf("%s: no such port", e.Host))
			continue
		}
		addrs, err := c.addresses(ctx, e.Host)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, a := range addrs {
			conn, err := c.dialOne(ctx, netip.AddrPortFrom(a.Unmap(), e.Port))
			if err == nil {
				return conn, nil
			}
			errs = append(errs, err)
			if ctx.Err() != nil {
				return nil, errors.Join(errs...)
			}
		}
	}
	return nil, errors.Join(errs...)
}

// addresses resolves a host name and leaves an IP address as it is.
func (c *Client) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := c.resolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("%s has no address", host)
	}
	return addrs, err
}

// nowhere is the resolver where no name exists.
type nowhere struct{}

func (nowhere) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no name is looked up here", Name: host, IsNotFound: true}
}

func (nowhere) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return "", nil, &net.DNSError{Err: "no name is looked up here", Name: name, IsNotFound: true}
}

// onlyLoopback refuses a connection that would leave this machine.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is not on this machine", address)
	}
	return nil
}

func (c *Client) dialOne(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.connectTimeout)
	defer cancel()
	return c.dial(ctx, "tcp", to.String())
}
