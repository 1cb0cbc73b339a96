package filters

import "github.com/edgesteer/edgesteer/geo"

// newGeotargetRegional makes the filter that puts answers first which list the client's georegion, then all by great-circle distance.
func newGeotargetRegional(b *build) Filter { return b.geotarget(geo.SortRegion) }
