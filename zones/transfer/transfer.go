// Package transfer moves zones between servers: AXFR (RFC 5936) and NOTIFY (RFC 1996) in both directions, signed with TSIG (RFC 8945).
//
// An [Out] gives zones to secondaries that may have them ([Out.Transfer]), tells them of new serials ([Out.Published], [Out.Run]) and checks the signatures of requests of any kind
// ([Out.Verify]). An [In] keeps secondary zones: it asks primaries by the timers of the SOA and when a NOTIFY comes ([In.Notify]), keeps copies on disk, and hands a new version to
// whoever serves it.
//
// What it is not: it listens nowhere and answers nothing by itself; the server's stream transports send what Transfer writes. It sends no differences (an IXFR is answered with the
// whole zone) and takes none. It publishes nothing: server/app joins a new version with the zone's steered records.
package transfer
