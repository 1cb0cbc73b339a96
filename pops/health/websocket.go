package health

import (
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/coder/websocket"

	"github.com/edgesteer/edgesteer/server/config"
)

// websocketCheck does the whole handshake of RFC 6455 (101, Sec-WebSocket-Accept), sends a ping and waits for its pong.
type websocketCheck struct{ *httpCheck }

func newWebsocket(c *config.Check, d *dialer) (Check, error) {
	h, err := makeHTTP(c, d)
	if err != nil {
		return nil, err
	}
	h.client.Transport = upgrade{h.client.Transport}
	return websocketCheck{h}, nil
}

func (c websocketCheck) Probe(ctx context.Context, a netip.Addr) error {
	header := http.Header{}
	header.Set("User-Agent", agent)
	for k, v := range c.headers {
		header.Set(k, v)
	}
	ws, res, err := websocket.Dial(ctx, c.url(a), &websocket.DialOptions{HTTPClient: c.client, HTTPHeader: header, Host: c.host}) //nolint:bodyclose // the library owns it
	var refused *upgradeError
	switch {
	case errors.As(err, &refused):
		return refused
	case err != nil && res != nil: // the library dislikes something else of the response
		return errors.New("bad upgrade")
	case err != nil:
		return err
	}
	defer func() { _ = ws.CloseNow() }()
	if err := c.headersMatch(res.Header); err != nil {
		return err
	}
	reading := ws.CloseRead(ctx)
	if err := ws.Ping(ctx); err != nil {
		switch {
		case ctx.Err() != nil:
			return errors.New("no pong in time")
		case reading.Err() != nil:
			return errors.New("connection closed instead of a pong")
		}
		return err
	}
	goodbye(ctx, ws)
	return c.certificate(res.TLS)
}

// goodbyeTime is how long the other side gets to close in good order, so that its log does not fill with broken connections.
const goodbyeTime = 500 * time.Millisecond

func goodbye(ctx context.Context, ws *websocket.Conn) {
	ctx, cancel := context.WithTimeout(ctx, goodbyeTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ws.CloseNow() })
	defer stop()
	_ = ws.Close(websocket.StatusNormalClosure, "") // the pong has been seen
}

// upgrade looks at the response before the library does, which would wait for the rest of a bad one.
type upgrade struct{ http.RoundTripper }

// upgradeError says what is wrong with the response to an upgrade.
type upgradeError struct{ text string }

func (e *upgradeError) Error() string { return e.text }

func (u upgrade) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := u.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	var text string
	switch accept := res.Header.Get("Sec-WebSocket-Accept"); {
	case res.StatusCode != http.StatusSwitchingProtocols:
		text = fmt.Sprintf("upgrade refused: status %d", res.StatusCode)
	case accept == "":
		text = "upgrade without Sec-WebSocket-Accept"
	case accept != acceptKey(r.Header.Get("Sec-WebSocket-Key")):
		text = "wrong Sec-WebSocket-Accept"
	default:
		return res, nil
	}
	_ = res.Body.Close() // nothing in it matters
	return nil, &upgradeError{text}
}

// acceptKey is the answer to a key (RFC 6455, section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455
	return base64.StdEncoding.EncodeToString(sum[:])
}
