package api_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edgesteer/edgesteer/server/api"
)

// Drain a third of a PoP's networks over ten minutes, if nobody else has changed anything since it was looked at.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := api.New("unix:/nowhere/admin.sock", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	by := 33.0
	request := api.DrainRequest{
		Target: "eu-west-1",
		By:     &by,
		Over:   api.Duration(10 * time.Minute),
		Order:  api.Order{Reason: "fibre works", Ticket: "NET-123", DryRun: true},
	}
	preview, err := client.Drain(ctx, request)
	if err != nil {
		var advice interface{ Advice() string }
		if errors.As(err, &advice) {
			fmt.Println(err)
			fmt.Println("hint:", advice.Advice())
		}
		return
	}
	request.DryRun, request.If = false, preview.Version
	if done, err := client.Drain(ctx, request); err == nil {
		fmt.Println("to undo it:", done.Undo)
	}
	// Output:
	// asking unix:/nowhere/admin.sock: dial unix /nowhere/admin.sock: connect: no such file or directory
	// hint: no server runs there; start one with edgesteer serve, or name another with --server
}
