package app

import (
	"path/filepath"

	"github.com/edgesteer/edgesteer/geo"
	"github.com/edgesteer/edgesteer/server"
	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
	"github.com/edgesteer/edgesteer/zones/transfer"
	"github.com/edgesteer/edgesteer/zones/wire"
	"github.com/edgesteer/edgesteer/zones/zonefile"
)

// newTransfers makes both directions of zone transfers. It gives the secondary zones that can be served of their copies on disk, as what load takes over.
func (a *App) newTransfers(cfg *config.Config) (copies *parts, err error) {
	if a.out, err = transfer.NewOut(transfer.OutConfig{Log: a.log, Registerer: a.registry}); err != nil {
		return nil, err
	}
	a.in, err = transfer.NewIn(transfer.InConfig{
		Zones: cfg.Zones, Dir: filepath.Join(cfg.Path(cfg.Server.State), "zones"), Changed: a.secondary, Log: a.log, Registerer: a.registry,
	})
	if err != nil {
		return nil, err
	}
	return &parts{zones: zones.New(a.in.Zones(), nil)}, nil
}

// configureTransfers has both directions go by what was loaded.
func (a *App) configureTransfers(p *parts) {
	a.out.Configure(p.cfg.Zones, p.keys)
	a.in.Configure(p.cfg.Zones, p.keys)
}

// secondary serves a new version of a secondary zone, with the steered records of the configuration; nil takes the zone out of service.
func (a *App) secondary(apex []byte, z *zones.Zone) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	next := *a.present()
	var list []*zones.Zone
	for other := range next.zones.Zones() {
		if string(other.Apex()) != string(apex) {
			list = append(list, other)
		}
	}
	if z != nil {
		list = append(list, z)
	}
	set := zones.New(list, zones.NewPlanTable(next.zones))
	if z != nil {
		var problems []config.Problem
		if set, problems = zonefile.Reload(next.cfg.Bind(next.said), next.fleet, set, apex); set == nil {
			return config.Problems(problems)
		}
		logProblems(a.log, problems)
	}
	atlas, err := geo.BuildAtlas(next.atlas.Source(), set.Plans(), next.atlas)
	if err != nil {
		return err
	}
	next.zones, next.atlas = set, atlas
	return a.replace(&next)
}

// messages is what the server asks of zone transfers.
type messages struct{ *App }

// Verify implements server.Messages.
func (m messages) Verify(msg []byte) (server.Signer, uint16) {
	s, rcode := m.out.Verify(msg)
	if s == nil {
		return nil, rcode
	}
	return s, rcode
}

// Notify implements server.Messages.
func (m messages) Notify(msg, zone []byte, peer *server.Peer) uint16 {
	return m.in.Notify(msg, zone, peer.Addr)
}

// Transfer implements server.Messages. What is sent is of one snapshot; the worker's own may be a little older.
func (m messages) Transfer(msg []byte, zone *zones.Zone, peer *server.Peer) (server.Transfer, uint16) {
	snap := m.publisher.Snapshot()
	if zone = snap.Zones.Zone(zone.Apex()); zone == nil {
		return nil, wire.RCodeNotAuth
	}
	return m.out.Transfer(msg, zone, peer.Addr, snap.View, snap.Atlas)
}
