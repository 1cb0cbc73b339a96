package filters

import "github.com/edgesteer/edgesteer/geo"

// newGeofenceCountry makes the fence around the countries and subdivisions that an answer lists.
func newGeofenceCountry(b *build) Filter { return b.fence(geo.MatchCountry, "remove_no_location") }
