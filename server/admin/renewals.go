package admin

import (
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// renew is POST /v1/renewals.
func (s *Server) renew(c *call, r *api.RenewRequest) (*api.Change, error) {
	target, ids, err := which(r.Target, r.ID)
	if err != nil {
		return nil, err
	}
	return s.change(&r.Order, func(dryRun bool) (drain.Result, error) {
		return s.cfg.Ledger.Renew(drain.RenewRequest{
			Target:   target,
			IDs:      ids,
			Author:   c.by.name,
			Role:     c.by.class(),
			Reason:   r.Reason,
			For:      length(r.For),
			Forever:  r.For == api.Forever,
			Override: r.Override,
			Key:      r.Key,
			DryRun:   dryRun,
		})
	})
}
