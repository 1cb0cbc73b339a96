package filters

import "github.com/edgesteer/edgesteer/geo"

// newNetfenceASN makes the fence around the autonomous systems that an answer lists.
func newNetfenceASN(b *build) Filter { return b.fence(geo.MatchASN, "remove_no_asn") }
