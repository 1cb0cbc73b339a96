package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/app"
	"github.com/edgesteer/edgesteer/server/config"
)

type checkOptions struct {
	*streams
	config string
	output output
}

// checkResult is what `check -o json` prints.
type checkResult struct {
	Schema   int            `json:"schema"`
	File     string         `json:"file"`
	Errors   int            `json:"errors"`
	Warnings int            `json:"warnings"`
	Problems []checkProblem `json:"problems"`
}

// checkProblem is one problem, in the order of files and lines.
type checkProblem struct {
	Severity string `json:"severity"` // error or warning
	File     string `json:"file"`
	Line     int    `json:"line"`            // from 1; 0 if not known
	Field    string `json:"field,omitempty"` // zone[0].record[1].filters[2]
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

func newCheck(s *streams) *cobra.Command {
	o := &checkOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration: everything that serve would refuse or warn of",
		Long: "Check reads a configuration, its zone files and location databases, and prints every problem with file, line and a hint, a line each.\n" +
			"Exit code 0: it can be served (there may be warnings); 4: it cannot.",
		Example: "  edgesteer check --config edgesteer.toml",
		Args:    arguments(),
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
	addConfig(cmd, &o.config)
	addOutput(cmd, &o.output)
	return cmd
}

// addConfig is the flag --config.
func addConfig(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "edgesteer.toml", "configuration `FILE`")
}

func (o *checkOptions) run() error {
	cfg, problems := config.Load(o.config)
	if cfg != nil {
		problems = append(problems, app.Check(cfg, slog.New(slog.DiscardHandler))...)
	}
	problems = config.Tidy(problems)
	result := checkResult{Schema: 1, File: o.config, Problems: []checkProblem{}}
	for _, p := range problems {
		severity := "error"
		if p.Warning {
			severity = "warning"
			result.Warnings++
		} else {
			result.Errors++
		}
		result.Problems = append(result.Problems, checkProblem{severity, p.File, p.Line, p.Field, p.Message, p.Hint})
	}
	if o.output == "json" {
		if err := o.json(result); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			fmt.Fprintln(o.out, p)
		}
		fmt.Fprintf(o.err, "%s: %s, %s\n", o.config, count(result.Errors, "error"), count(result.Warnings, "warning"))
	}
	if cfg == nil && !exists(o.config) {
		return &failure{code: exitError} // nothing was checked
	}
	if result.Errors > 0 {
		return &failure{code: exitProblems}
	}
	return nil
}

func count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
