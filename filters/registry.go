package filters

import "slices"

// Nature says what the outcome of a filter depends on beside its input.
type Nature uint8

// The natures of filters.
const (
	Static Nature = iota // the same for one client under one View
	Sticky               // so, too, by a hash of the client or of the name
	Random               // drawn anew for each query; no record that others avoid may have it
)

func (n Nature) String() string { return [...]string{"static", "sticky", "random"}[n] }

// ValueKind is what a key of a filter's configuration takes. All kinds are taken as strings, too.
type ValueKind uint8

// The kinds of values.
const (
	Number ValueKind = iota // a whole number
	Bool                    // true, false, 1 or 0
	Choice                  // one of a few words
	Text
)

// Key is one key of a filter's configuration.
type Key struct {
	Name    string
	Kind    ValueKind
	Default string   // as text; "" with Kind Text or Number: the key is required
	Min     int      // of a Number
	OneOf   []string // of a Choice
}

// Entry describes one filter. To add a filter, write its file and a row of the table below.
type Entry struct {
	Name   string
	Doc    string   // one line
	Also   string   // what else it is called, for hints
	Keys   []Key    // of its configuration
	Reads  []string // metadata of the answers; without any of it on any answer the filter does nothing that is worth having
	Nature Nature
	Places bool // it asks where the client is

	build func(*build) Filter
}

var (
	flagByNetwork = Key{Name: "sticky_by_network", Kind: Bool, Default: "false"}
	flagEliminate = Key{Name: "eliminate", Kind: Bool, Default: "false"}
)

var registry = [...]Entry{
	{Name: "up", Doc: "remove answers that are not available for this client", Reads: []string{"up"}, build: newUp},
	{Name: "shed_load", Doc: "take clients away from answers that carry too much",
		Keys:  []Key{{Name: "metric", Kind: Choice, Default: "loadavg", OneOf: []string{"loadavg", "connections", "requests"}}},
		Reads: []string{"loadavg", "connections", "requests", "low_watermark", "high_watermark"}, build: newShedLoad},
	{Name: "geotarget_country", Doc: "sort by subdivision, country, then distance", Places: true,
		Reads: []string{"country", "us_state", "ca_province", "subdivisions", "latitude", "longitude"}, build: newGeotargetCountry},
	{Name: "geotarget_regional", Doc: "sort by georegion, then distance", Places: true,
		Reads: []string{"georegion", "latitude", "longitude"}, build: newGeotargetRegional},
	{Name: "geotarget_latlong", Doc: "sort by distance", Places: true, Reads: []string{"latitude", "longitude"}, build: newGeotargetLatLong},
	{Name: "geofence_country", Doc: "keep answers for the client's country or subdivision", Places: true,
		Keys:  []Key{{Name: "remove_no_location", Kind: Bool, Default: "true"}},
		Reads: []string{"country", "us_state", "ca_province", "subdivisions"}, build: newGeofenceCountry},
	{Name: "geofence_regional", Doc: "keep answers for the client's georegion", Places: true,
		Keys:  []Key{{Name: "remove_no_georegion", Kind: Bool, Default: "true"}},
		Reads: []string{"georegion"}, build: newGeofenceRegional},
	{Name: "netfence_asn", Doc: "keep answers for the client's autonomous system", Places: true,
		Keys:  []Key{{Name: "remove_no_asn", Kind: Bool, Default: "true"}},
		Reads: []string{"asn"}, build: newNetfenceASN},
	{Name: "netfence_prefix", Doc: "keep answers for the client's address", Places: true,
		Keys:  []Key{{Name: "remove_no_ip_prefixes", Kind: Bool, Default: "true"}},
		Reads: []string{"ip_prefixes"}, build: newNetfencePrefix},
	{Name: "select_first_n", Doc: "keep the first N", Keys: []Key{{Name: "N", Kind: Number, Default: "1", Min: 1}}, build: newSelectFirstN},
	{Name: "select_first_region", Also: "select_first_group", Doc: "keep the group of the first", build: newSelectFirstRegion},
	{Name: "shuffle", Doc: "random order for each query", Nature: Random, build: newShuffle},
	{Name: "weighted_shuffle", Doc: "random order for each query, by weight", Nature: Random, Reads: []string{"weight"}, build: newWeightedShuffle},
	{Name: "sticky", Doc: "random order that one client keeps", Nature: Sticky, Keys: []Key{flagByNetwork}, build: newSticky},
	{Name: "weighted_sticky", Doc: "random order by weight that one client keeps", Nature: Sticky, Keys: []Key{flagByNetwork}, Reads: []string{"weight"}, build: newWeightedSticky},
	{Name: "sticky_region", Doc: "random order of groups that one client keeps", Nature: Sticky, Keys: []Key{flagByNetwork}, build: newStickyRegion},
	{Name: "priority", Doc: "lowest priority first", Keys: []Key{flagEliminate}, Reads: []string{"priority"}, build: newPriority},
	{Name: "cost", Doc: "lowest cost first", Keys: []Key{flagEliminate}, Reads: []string{"cost"}, build: newCost},
	{Name: "shuffle_shard", Doc: "keep a few answers that one tenant keeps", Nature: Sticky,
		Keys:  []Key{{Name: "size", Kind: Number, Min: 1}, {Name: "key", Kind: Choice, Default: "client", OneOf: []string{"client", "qname"}}},
		build: newShuffleShard},
	{Name: "avoid_record", Doc: "remove what another record gives this client", Keys: []Key{{Name: "record", Kind: Text}}, build: newAvoidRecord},
}

// Registry lists the filters that exist, in the order of the documentation.
func Registry() []Entry { return slices.Clone(registry[:]) }

// find gives the row of a filter, nil if there is none.
func find(name string) *Entry {
	for i := range registry {
		if registry[i].Name == name {
			return &registry[i]
		}
	}
	return nil
}

// carries reports whether an answer has a key of the metadata.
func carries(a *Answer, key string) bool {
	switch key {
	case "country":
		return len(a.Place.Countries) > 0
	case "us_state", "ca_province", "subdivisions":
		return len(a.Place.Subdivisions) > 0
	case "georegion":
		return len(a.Place.Regions) > 0
	case "latitude", "longitude":
		return a.Place.Coords
	case "asn":
		return len(a.Place.ASNs) > 0
	case "ip_prefixes":
		return len(a.Place.Prefixes) > 0
	case "weight":
		return a.Weight.Set
	case "priority":
		return a.Priority.Set
	case "cost":
		return a.Cost.Set
	}
	return true // the filter sees to it
}
