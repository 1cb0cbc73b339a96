package transfer

import (
	"fmt"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones"
)

// Check warns of transfer tables that do not say what they seem to: a zone that nobody can have, or that secondaries would have without its steered records. set is what was made of
// the configuration; zones that are not in it yet are judged by the configuration alone.
func Check(cfg *config.Config, set *zones.Set) (problems []config.Problem) {
	warn := func(i int, message, hint string, path ...any) {
		p := cfg.Problem(message, hint, append([]any{"zone", i, "transfer"}, path...)...)
		p.Warning = true
		problems = append(problems, p)
	}
	for i := range cfg.Zones {
		z := &cfg.Zones[i]
		t := z.Transfer
		if t == nil {
			continue
		}
		steered := len(z.Records)
		if made := set.Zone(parseName(z.Name)); made != nil {
			steered = len(made.Records())
		}
		if len(t.Allow) == 0 && len(t.Keys) == 0 {
			warn(i, fmt.Sprintf("zone %s: nobody may have it", z.Name), "give allow, keys or both")
			continue
		}
		switch {
		case steered == 0:
		case t.Steered == "":
			warn(i, fmt.Sprintf("zone %s has steered records: its transfer is refused", z.Name), `say steered = "default" (what a client without a place gets) or "omit"`)
		case t.Steered == "omit":
			warn(i, fmt.Sprintf("zone %s is transferred without its %d steered records: a secondary denies these names", z.Name, steered), `steered = "default" gives secondaries what a client without a place gets`, "steered")
		}
	}
	return problems
}
