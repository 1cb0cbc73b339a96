package filters

import "github.com/edgesteer/edgesteer/geo"

// newNetfencePrefix makes the fence around the prefixes that an answer lists, which looks at the client's address itself and at no database.
func newNetfencePrefix(b *build) Filter { return b.fence(geo.MatchPrefix, "remove_no_ip_prefixes") }
