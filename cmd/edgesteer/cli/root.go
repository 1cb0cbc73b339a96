package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edgesteer/edgesteer/server/config"
)

func newRoot(s *streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edgesteer COMMAND",
		Short: "an authoritative DNS server that steers clients to points of presence",
		Long: "edgesteer is an authoritative DNS server that decides, for each query, which points of presence a client is sent to.\n" +
			"`edgesteer serve` is the server; the other commands check, explain and operate it.\n\n" +
			"Without --server, commands mean the server of EDGESTEER_CONFIG or of edgesteer.toml in this folder, and no other if that does not answer; " +
			"without such a file the packaged server of this machine, else its demo.\n" +
			"A server that is asked over https wants a token, which is taken from EDGESTEER_TOKEN.\n" +
			"Every flag can also be given as EDGESTEER_<FLAG> in the environment, for example EDGESTEER_CONFIG.\n" +
			"Exit codes: 0 done; 1 error; 2 wrong usage; 3 done here but not converged in time; 4 a check or test found problems.",
		Example:           "  edgesteer demo\n  edgesteer check --config edgesteer.toml\n  edgesteer explain wss-primary.example.com A --client 1.0.16.0/24",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags(), os.LookupEnv) },
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0], args[0])
	}
	cmd.SetIn(s.in)
	cmd.SetOut(s.out)
	cmd.SetErr(s.err)
	s.setHelp(cmd)
	cmd.SetHelpCommand(newHelp(cmd))
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return wrong(cmd.CommandPath()+" --help", "%s", plainly(err))
	})
	cmd.AddCommand(
		newServe(s),
		newCheck(s),
		newExplain(s),
		newStatus(s),
		newDrain(s),
		newRestore(s),
		newShift(s),
		newPin(s),
		newRenew(s),
		newSimulate(s),
		newHistory(s),
		newPoP(s),
		newHealth(s),
		newDrill(s),
		newZone(s),
		newPeer(s),
		newTest(s),
		newImport(s),
		newDemo(s),
		newVersion(s),
		newCompletion(s),
	)
	completeNoFiles(cmd)
	return cmd
}

// newHelp is what --help of a command shows, for those who begin with help.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Short:  "Show the help of a command",
		Hidden: true, // every command has --help
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				word := strings.Join(args, " ")
				return unknownCommand(cmd, word, rest[0])
			}
			return cmd.Help()
		},
	}
}

// plainly is what is wrong with a flag, without the words of the library that parses numbers.
func plainly(err error) string {
	text, _, found := strings.Cut(err.Error(), ": strconv.")
	if !found {
		text, _, found = strings.Cut(err.Error(), "strconv.")
	}
	switch {
	case !found:
	case strings.Contains(err.Error(), "ParseBool"):
		text = strings.TrimSuffix(text, ": ") + ": want true or false"
	default:
		text = strings.TrimSuffix(text, ": ") + ": want a whole number"
	}
	return strings.TrimPrefix(text, ": ")
}

// setHelp lets help keep to the width of the terminal.
func (s *streams) setHelp(cmd *cobra.Command) {
	narrow := min(s.width, 120)
	if narrow == 0 {
		return
	}
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", narrow)))
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		lines := strings.Split(c.Long, "\n")
		for i := range lines {
			lines[i] = s.wrapped(0, lines[i])
		}
		c.Long = strings.Join(lines, "\n")
		help(c, args)
	})
}

// group makes one command of several: pop list, pop show.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, cmd.CommandPath()+" "+args[0], args[0])
	}
	return cmd
}

// unknownCommand refuses what somebody typed, of which a word is no command of root.
func unknownCommand(root *cobra.Command, typed, word string) error {
	var names []string
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return wrong(cmp.Or(config.DidYouMean(word, names), root.CommandPath()+" --help"), "unknown command %q", typed)
}

// variable is the name of a flag in the environment.
func variable(flag string) string {
	return "EDGESTEER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// inherited marks a flag that the environment has set.
const inherited = "environment"

// typed tells whether somebody gave a flag, rather than the environment.
func typed(f *pflag.Flag) bool {
	_, other := f.Annotations[inherited]
	return f.Changed && !other
}

// fromEnvironment sets the flags that were not given.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		value, ok := lookup(variable(f.Name))
		if !ok || f.Changed || f.Name == "help" || err != nil {
			return
		}
		if e := flags.Set(f.Name, value); e != nil {
			err = wrong("unset "+variable(f.Name), "%s: %s", variable(f.Name), plainly(e))
		}
		f.Annotations = map[string][]string{inherited: nil}
	})
	return err
}

// arguments holds a command to its number of arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return wrong(cmd.CommandPath()+" --help", "%s is missing", names[len(args)])
		case len(args) > len(names) && cmd.HasAvailableSubCommands():
			return unknownCommand(cmd, cmd.CommandPath()+" "+args[len(names)], args[len(names)])
		case len(args) > len(names):
			return wrong(cmd.CommandPath()+" --help", "%q is one argument too many", args[len(names)])
		}
		return nil
	}
}

// output is the flag -o.
type output string

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "FORM" }

func (o *output) Set(s string) error {
	if s != "json" && s != "text" {
		return errors.New("want text or json")
	}
	*o = output(s)
	return nil
}

func addOutput(cmd *cobra.Command, o *output) {
	*o = "text"
	cmd.Flags().VarP(o, "output", "o", "`FORM` of the result: text or json")
	complete(cmd, "output", "text", "json")
}
