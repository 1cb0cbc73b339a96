package cli

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
)

// completeTime is how long somebody who has pressed the tabulator waits for a server.
const completeTime = 500 * time.Millisecond

// offer gives what can be completed to, with a description after a tabulator.
type offer func(ctx context.Context, c *api.Client, typed string) []string

// targets completes arguments from the live server: each by its offer. Without a server there is nothing.
func targets(offers ...offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(offers) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return live(cmd, offers[len(args)], typed)
	}
}

// completeLive completes a flag from the live server.
func completeLive(cmd *cobra.Command, flag string, f offer) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return live(cmd, f, typed)
	})
}

// completeNoFiles keeps shells from offering files to commands that take none.
func completeNoFiles(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		completeNoFiles(c)
	}
	if cmd.Runnable() && cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil && !strings.Contains(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = targets()
	}
}

// complete completes a flag to fixed words.
func complete(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func live(cmd *cobra.Command, f offer, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	server := os.Getenv(variable("server"))
	if flag := cmd.Flag("server"); flag != nil && flag.Changed {
		server = flag.Value.String()
	}
	c, err := (&streams{err: io.Discard}).connect(server)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(f(ctx, c, typed), func(s string) bool { return !strings.HasPrefix(s, typed) }), cobra.ShellCompDirectiveNoFileComp
}

// popsOnly offers the PoPs.
func popsOnly(ctx context.Context, c *api.Client, _ string) (out []string) {
	pops, err := c.PoPs(ctx)
	if err != nil {
		return nil
	}
	for _, p := range pops.PoPs {
		out = append(out, p.Name+"\t"+api.Percent(p.Share))
	}
	return out
}

// everything offers all targets: PoPs and services everywhere, and endpoints once there is a slash.
func everything(ctx context.Context, c *api.Client, typed string) (out []string) {
	pops, err := c.PoPs(ctx)
	if err != nil {
		return nil
	}
	for _, p := range pops.PoPs {
		if !strings.Contains(typed, "/") {
			out = append(out, p.Name+"\t"+api.Percent(p.Share))
		}
		for _, e := range p.Endpoints {
			if service := "*/" + e.Service; strings.HasPrefix(typed, "*") && !slices.Contains(out, service) {
				out = append(out, service)
			}
			if strings.Contains(typed, "/") {
				out = append(out, p.Name+"/"+e.Service+"\t"+api.Percent(e.Share))
			}
		}
	}
	return out
}

// nodes offers the nodes of the fleet.
func nodes(ctx context.Context, c *api.Client, _ string) (out []string) {
	peers, err := c.Peers(ctx)
	if err != nil {
		return nil
	}
	for _, p := range peers.Peers {
		out = append(out, p.Name+"\t"+p.State)
	}
	return out
}

// drills offers the targets of drills.
func drills(ctx context.Context, c *api.Client, _ string) (out []string) {
	d, err := c.Drills(ctx)
	if err != nil {
		return nil
	}
	for _, e := range d.Drills {
		out = append(out, e.Target+"\t"+e.Window)
	}
	return out
}

// types offers types of records that are steered.
func types(context.Context, *api.Client, string) []string {
	return []string{"A", "AAAA", "CNAME", "HTTPS", "SVCB", "MX", "SRV", "TXT"}
}

// unknown offers nothing.
func unknown(context.Context, *api.Client, string) []string { return nil }

// ids offers the statements in force.
func ids(ctx context.Context, c *api.Client, _ string) (out []string) {
	statements, err := c.Statements(ctx, false)
	if err != nil {
		return nil
	}
	for _, st := range statements.Statements {
		out = append(out, st.ID+"\t"+deed(&st)+": "+why(st.Reason, ""))
	}
	return out
}

// drained offers the targets of which something was said.
func drained(ctx context.Context, c *api.Client, _ string) (out []string) {
	statements, err := c.Statements(ctx, false)
	if err != nil {
		return nil
	}
	for _, st := range statements.Statements {
		if !slices.ContainsFunc(out, func(s string) bool { return strings.HasPrefix(s, st.Target+"\t") }) {
			out = append(out, st.Target+"\t"+deed(&st)+": "+why(st.Reason, ""))
		}
	}
	return out
}
