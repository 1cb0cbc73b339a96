package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"os/user"
	"strconv"
	"strings"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// role is what somebody may do. Roles are bits, so that a route can name several.
type role uint8

const (
	nobody     role = 0
	viewer     role = 1 << iota // reads
	operator                    // does everything
	automation                  // reads, drains, and lifts and renews what automation made

	readers = viewer | operator | automation
	actors  = operator | automation
)

var roleNames = map[string]role{"viewer": viewer, "operator": operator, "automation": automation}

// String is the role, or the roles, as the configuration writes them.
func (r role) String() string {
	var names []string
	for _, n := range []string{"viewer", "operator", "automation"} {
		if r&roleNames[n] != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, " or ")
}

// caller is who makes a request.
type caller struct {
	name  string // author of what is done
	role  role   // one of them, or nobody
	local bool   // came through the unix socket
}

// keys knows credentials: hashes of tokens, and names in certificates.
type keys struct {
	tokens  []tokenKey
	clients map[string]role
}

type tokenKey struct {
	hash [sha256.Size]byte
	name string
	role role
}

func newKeys(c config.Admin) (*keys, error) {
	k := &keys{clients: map[string]role{}}
	for i, t := range c.Tokens {
		hash, err := hex.DecodeString(t.SHA256)
		if err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("admin.token[%d].sha256: want 64 hex digits", i)
		}
		if roleNames[t.Role] == nobody {
			return nil, fmt.Errorf("admin.token[%d].role: unknown role %q", i, t.Role)
		}
		k.tokens = append(k.tokens, tokenKey{[sha256.Size]byte(hash), t.Name, roleNames[t.Role]})
	}
	for i, c := range c.Clients {
		if roleNames[c.Role] == nobody {
			return nil, fmt.Errorf("admin.client[%d].role: unknown role %q", i, c.Role)
		}
		k.clients[c.Name] = roleNames[c.Role]
	}
	return k, nil
}

// identify finds out who makes a request: whoever could open the unix socket, the bearer of a token, a browser with a session, or else the holder of a client certificate.
func (s *Server) identify(r *http.Request) (caller, *api.Problem) {
	k := s.keys
	if p, ok := r.Context().Value(peerKey{}).(peer); ok {
		return caller{name: p.String(), role: operator, local: true}, nil
	}
	if header := r.Header.Values("Authorization"); len(header) > 0 {
		scheme, token, _ := strings.Cut(header[0], " ")
		if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return caller{}, stranger("the Authorization header is not one bearer token", "send: Authorization: Bearer TOKEN")
		}
		if c, ok := k.token(strings.TrimSpace(token)); ok {
			return c, nil
		}
		return caller{}, stranger("the token is not known here", "its SHA-256 hash belongs into [[admin.token]] of this node's configuration")
	}
	if cookie, err := r.Cookie(sessionCookie(r)); err == nil && ownPage(r) {
		if c, ok := s.sessions.find(cookie.Value); ok {
			return c, nil
		}
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		names := certificateNames(r.TLS.VerifiedChains[0][0])
		for _, n := range names {
			if role, ok := k.clients[n]; ok {
				return caller{name: n, role: role}, nil
			}
		}
		return caller{}, stranger(fmt.Sprintf("the client certificate's names are not known here: %q", names), "one of them belongs into [[admin.client]] of this node's configuration")
	}
	return caller{}, stranger("no credentials", "send a token (EDGESTEER_TOKEN), or use the unix socket on the node itself")
}

// ownPage tells whether a browser sends a request for the page of this server, or for the person who typed its address. Old browsers do not say; for them there is the cookie's SameSite.
func ownPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none"
}

// token looks a token up. It takes the same time whichever token it is, and however much of one was guessed.
func (k *keys) token(token string) (caller, bool) {
	hash := sha256.Sum256([]byte(token))
	found := -1
	for i := range k.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], k.tokens[i].hash[:]), i, found)
	}
	if found < 0 || token == "" {
		return caller{}, false
	}
	return caller{name: k.tokens[found].name, role: k.tokens[found].role}, true
}

// certificateNames are the names by which a certificate's holder may be known, those that authorities check first.
func certificateNames(c *x509.Certificate) []string {
	names := append([]string(nil), c.DNSNames...)
	names = append(names, c.EmailAddresses...)
	if c.Subject.CommonName != "" {
		names = append(names, c.Subject.CommonName)
	}
	return names
}

// peer is the process at the other end of a unix socket.
type peer struct {
	uid   uint32
	known bool // the system tells
}

type peerKey struct{}

// String is the name of the process's user.
func (p peer) String() string {
	if !p.known {
		return "local"
	}
	id := strconv.FormatUint(uint64(p.uid), 10)
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + id
}
