package cli

import (
	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/config"
)

func newCompletion(s *streams) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print a completion script for bash, zsh, fish or powershell",
		Example:   "  source <(edgesteer completion bash)\n  edgesteer completion fish > ~/.config/fish/completions/edgesteer.fish",
		Args:      arguments("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(s.out, true)
			case "zsh":
				return root.GenZshCompletion(s.out)
			case "fish":
				return root.GenFishCompletion(s.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(s.out)
			}
			return wrong(config.DidYouMean(args[0], shells), "unknown shell %q", args[0])
		},
	}
}
