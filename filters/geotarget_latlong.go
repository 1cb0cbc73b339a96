package filters

import "github.com/edgesteer/edgesteer/geo"

// newGeotargetLatLong makes the filter that sorts by great-circle distance to the answers' own coordinates.
func newGeotargetLatLong(b *build) Filter { return b.geotarget(geo.SortDistance) }
