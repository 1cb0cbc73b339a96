package drain_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
)

func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	fleet := &pops.Fleet{
		PoPs:      []pops.PoP{{Name: "iad"}, {Name: "fra"}},
		Services:  []pops.Service{{Name: "envoy-wss"}},
		Endpoints: []pops.Endpoint{{PoP: 0}, {PoP: 1}},
	}
	ledger, err := drain.New(drain.Config{Node: "dns-a", Dir: dir, Fleet: func() *pops.Fleet { return fleet }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ledger.Close()

	request := drain.Request{Kind: pops.Drain, Target: pops.Target{PoP: "fra"}, By: 37, Author: "ann", Role: pops.Person, Reason: "fibre works"}
	result, err := ledger.Apply(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range result.Changes {
		fmt.Printf("%s: %g %% -> %g %%\n", c.Target, c.Before, c.After)
	}

	now := ledger.Now()
	view := pops.NewView(fleet, pops.Input{Now: now, Intents: ledger.Intents(now)})
	fmt.Println("fra/envoy-wss:", view.States[1].Share)

	_, err = ledger.Apply(drain.Request{Kind: pops.Pin, Target: pops.Target{PoP: "fraa"}, Author: "bob", Role: pops.Person, Reason: "checks are wrong"})
	fmt.Println(err)
	// Output:
	// fra: 100 % -> 63 %
	// fra/envoy-wss: 63
	// unknown PoP "fraa": did you mean "fra"?
}
