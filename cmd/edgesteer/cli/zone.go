package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

type zoneOptions struct {
	question
}

func newZone(s *streams) *cobra.Command {
	return group(&cobra.Command{
		Use:     "zone list|reload",
		Short:   "Show the zones that are served, or read them anew",
		Example: "  edgesteer zone list\n  edgesteer zone reload",
	}, newZoneList(s), newZoneReload(s))
}

func newZoneList(s *streams) *cobra.Command {
	o := &zoneOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:   "list",
		Short: "List the zones that are served",
		Args:  arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return put(cmd.Context(), &o.question, (*api.Client).Zones, o.list)
		},
	})
}

func newZoneReload(s *streams) *cobra.Command {
	o := &zoneOptions{question: question{streams: s}}
	return o.flags(&cobra.Command{
		Use:   "reload",
		Short: "Read configuration, zones and databases anew",
		Long:  "Reload is what SIGHUP does, and tells what came of it. What is broken keeps its old version, with exit code 4.",
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.reload(cmd.Context()) },
	})
}

func (o *zoneOptions) list(zones *api.Zones) error {
	var rows [][]string
	for _, z := range zones.Zones {
		rows = append(rows, []string{z.Name, strconv.FormatUint(uint64(z.Serial), 10), strconv.Itoa(z.Owners), strconv.Itoa(z.Steered), o.clock(z.Loaded, time.Now()), z.Source, z.Error})
	}
	o.tableOr("no zone is served: every query is refused", []string{"ZONE", ">SERIAL", ">NAMES", ">STEERED", "LOADED", "FROM", "PROBLEM"}, rows)
	return nil
}

func (o *zoneOptions) reload(ctx context.Context) error {
	c, err := o.connect(o.server)
	if err != nil {
		return err
	}
	r, err := inTime(ctx, c.ReloadZones)
	if err != nil {
		return err
	}
	failed := slices.ContainsFunc(r.Problems, func(p api.ConfigProblem) bool {
		return !p.Warning || strings.HasSuffix(p.Message, "keeps its old version")
	})
	if o.output == "json" {
		if err := o.json(r); err != nil {
			return err
		}
	} else {
		for _, name := range r.Changed {
			fmt.Fprintf(o.out, "%s has a new version\n", name)
		}
		for _, p := range r.Problems {
			fmt.Fprintln(o.out, config.Problem{File: p.File, Line: p.Line, Field: p.Field, Message: p.Message, Hint: p.Hint, Warning: p.Warning})
		}
		fmt.Fprintf(o.err, "%s changed, %s\n", count(len(r.Changed), "zone"), count(len(r.Problems), "problem"))
	}
	if failed {
		return &failure{code: exitProblems}
	}
	return nil
}
