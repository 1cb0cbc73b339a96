package geo

import "net/netip"

// Client is who is asking: the network that keys every draw and is located, and the sender as second choice. NewClient fills it.
type Client struct {
	// Addr is the client's address, masked to Bits. An embedded IPv4 address has been taken out of its IPv6 form.
	Addr netip.Addr
	// Bits is how much of Addr is known: 0..32 or 0..128.
	Bits uint8
	// Offset is how many bits stood in front of the embedded IPv4 address, 0 if Addr was not embedded. Scopes are Offset plus the bits of Addr.
	Offset uint8
	// Floor is the fewest bits of Addr (of the family that Addr has) that any decision about this client depends on: in a wider prefix there are addresses of another kind,
	// embedded and plain ones, which are located in another way.
	Floor uint8
	// ECS says that the client came from a client subnet option; if not, the sender is the client.
	ECS bool
	// Sender is the address that sent the query, IPv4 unmapped.
	Sender netip.Addr
}

// NewClient says who is asking (steering.md section 2). ecs and source are the address and source prefix length of the client subnet option; an invalid ecs or a source of
// 0 means that there is none to go by, and the sender is the client. The option is taken as checked: source at most 32 or 128, no bits set beyond it. It does not allocate.
func NewClient(ecs netip.Addr, source uint8, sender netip.Addr) (c Client) {
	c.Set(ecs, source, sender)
	return c
}

// Set is NewClient in the memory of c.
func (c *Client) Set(ecs netip.Addr, source uint8, sender netip.Addr) {
	if !sender.Is4() {
		sender = sender.Unmap().WithZone("")
	}
	c.Offset, c.Floor, c.ECS, c.Sender = 0, 0, source > 0 && ecs.IsValid(), sender
	if c.ECS {
		c.Addr, c.Bits = ecs, source
	} else {
		c.Addr, c.Bits = sender, uint8(sender.BitLen())
	}
	if c.Addr.Is6() {
		c.unwrap()
	}
}

// Scope turns bits of Addr, as the compiled maps and the draws count them, into the scope prefix length of the client subnet option. 0 bits are scope 0: nothing about the
// client was looked at.
func (c *Client) Scope(bits uint8) uint8 {
	if bits == 0 {
		return 0
	}
	return c.Offset + max(bits, c.Floor)
}

// DrawBits is how many bits of the client a stable draw depends on: 24 for IPv4, 56 for IPv6 (steering.md section 4).
func (c *Client) DrawBits() uint8 {
	if c.Addr.Is4() {
		return 24
	}
	return 56
}

// Network is the client's address masked to min(source length, /24 or /56): the key of stable draws.
func (c *Client) Network() netip.Addr {
	bits := min(c.Bits, c.DrawBits())
	p, err := c.Addr.Prefix(int(bits))
	if err != nil {
		return c.Addr
	}
	return p.Addr()
}
