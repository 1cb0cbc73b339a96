package config

import (
	"net/netip"
	"time"
)

// Zone is one zone: a master file or primaries, and steered records.
type Zone struct {
	Name      string    `toml:"name" need:"true"` // a domain name
	File      string    `toml:"file"`             // RFC 1035 master file: SOA, NS and every static record; left out: secondary
	Primaries []Primary `toml:"primary"`          // where a secondary zone comes from
	Transfer  *Transfer `toml:"transfer"`         // who may have it; left out: nobody
	Records   []Record  `toml:"record"`           // steered records
}

// Primary is a server that a secondary zone is transferred from; it may send NOTIFY.
type Primary struct {
	Address netip.AddrPort `toml:"address" need:"true"`                   // address and port
	Key     string         `toml:"key"`                                   // TSIG key
	Timeout time.Duration  `toml:"timeout" default:"30s" range:"1s..10m"` // for one transfer
}

// Transfer is who may have a zone (AXFR). With both allow and keys, both must fit.
type Transfer struct {
	Allow   []netip.Prefix   `toml:"allow"`                         // client addresses or prefixes
	Keys    []string         `toml:"keys"`                          // TSIG keys
	Steered string           `toml:"steered" oneof:"default, omit"` // steered records as what an unplaced client gets, or not at all; left out: a zone with steered records is refused
	Notify  []netip.AddrPort `toml:"notify"`                        // secondaries that are told of changes
}

// TSIG is a key of zone transfers (RFC 8945).
type TSIG struct {
	Name       string `toml:"name" need:"true"`                                                                                      // domain name of the key
	Algorithm  string `toml:"algorithm" default:"hmac-sha256" oneof:"hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384, hmac-sha512"` // of the MAC
	Secret     string `toml:"secret"`                                                                                                // base64
	SecretFile string `toml:"secret_file"`                                                                                           // file that holds it instead
}

// Record is a steered record: a service's endpoints or answers of its own, and a chain.
type Record struct {
	Name            string           `toml:"name" need:"true"`                                         // relative to the zone; "@" is the zone itself
	Type            string           `toml:"type"`                                                     // left out with a service: A and AAAA
	Service         string           `toml:"service"`                                                  // one answer for each endpoint
	TTL             *uint32          `toml:"ttl" default:"60" range:"0..2147483647"`                   // seconds
	TTLMin          *uint32          `toml:"ttl_min" range:"0..2147483647"`                            // seconds, while something is about to change; left out: ttl
	AllDown         string           `toml:"all_down" default:"serve" oneof:"serve, nodata, servfail"` // what is answered when nothing is available
	UseClientSubnet *bool            `toml:"use_client_subnet" default:"true"`                         // steer by the client subnet of the query, else by its sender
	Meta            Meta             `toml:"meta"`                                                     // metadata of every answer
	Filters         []any            `toml:"filters"`                                                  // names, or tables with the key filter
	Groups          map[string]Group `toml:"group"`                                                    // by name
	Answers         []Answer         `toml:"answer"`                                                   // explicit answers
}

// Group is a named set of answers that share metadata (NS1: region, answer group).
type Group struct {
	Meta Meta   `toml:"meta"` // metadata of every answer in it
	PoP  string `toml:"pop"`  // ties the answers to a PoP, so that they can be drained
}

// Answer is one explicit answer.
type Answer struct {
	RData any    `toml:"rdata" need:"true"` // text in master file form, or a list of texts
	Group string `toml:"group"`             // the group that it is in
	PoP   string `toml:"pop"`               // ties it to a PoP, so that it can be drained
	Meta  Meta   `toml:"meta"`              // metadata
}
