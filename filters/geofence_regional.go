package filters

import "github.com/edgesteer/edgesteer/geo"

// newGeofenceRegional makes the fence around the georegions that an answer lists.
func newGeofenceRegional(b *build) Filter { return b.fence(geo.MatchRegion, "remove_no_georegion") }
