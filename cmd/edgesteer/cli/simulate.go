package cli

import "github.com/spf13/cobra"

func newSimulate(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate COMMAND",
		Short: "Show what a drain, restore, shift, pin or renew would do",
		Long: "Simulate is a command with --dry-run: it shows what would change, and changes nothing. It needs no reason. Exit code 4: a guard rail would refuse it.\n\n" +
			"The prediction is made by the filters themselves, over the queries that were asked lately.",
		Example: "  edgesteer simulate drain eu-west-1\n  edgesteer simulate shift eu-west-1 eu-central-1 --by 25%",
	}
	commands := []*cobra.Command{newDrain(s), newRestore(s), newShift(s), newPin(s), newRenew(s)}
	for _, c := range commands {
		c.Flag("dry-run").DefValue = "true"
		_ = c.Flags().Set("dry-run", "true") // a flag that is there
		c.Example = ""
		for _, name := range []string{"dry-run", "yes", "wait", "reason", "ticket", "author"} {
			if f := c.Flag(name); f != nil {
				f.Hidden = true
			}
		}
	}
	return group(cmd, commands...)
}
