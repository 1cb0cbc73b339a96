package filters

import "github.com/edgesteer/edgesteer/geo"

// newGeotargetCountry makes the filter that puts answers first which list the client's subdivision, then those which list its country, then all by great-circle distance.
func newGeotargetCountry(b *build) Filter { return b.geotarget(geo.SortCountry) }
