package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones/ns1"
)

func newImport(s *streams) *cobra.Command {
	return group(&cobra.Command{
		Use:     "import ns1",
		Short:   "Turn records of another service into a configuration",
		Example: "  edgesteer import ns1 records.json > steered.toml",
	}, newImportNS1(s))
}

func newImportNS1(s *streams) *cobra.Command {
	return &cobra.Command{
		Use:   "ns1 FILE",
		Short: "Turn records of NS1, as JSON, into a configuration",
		Long: "Import reads records as NS1's API gives them (GET /v1/zones/ZONE/DOMAIN/TYPE): one, a list, or several one after the other; FILE - is standard input. " +
			"The configuration is printed; `edgesteer check` accepts it once each zone has its file.\n\n" +
			"What cannot be carried over is an error with its place in the JSON and what to do; nothing is printed then, and the exit code is 4.",
		Example: "  edgesteer import ns1 records.json > steered.toml\n  curl -s -H \"X-NSONE-Key: $KEY\" https://api.nsone.net/v1/zones/example.com/www.example.com/A | edgesteer import ns1 -",
		Args:    arguments("FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return importNS1(s, args[0]) },
	}
}

func importNS1(s *streams, file string) error {
	data, err := readInput(s, file)
	if err != nil {
		return err
	}
	text, problems := ns1.Import(file, data)
	errors := 0
	for _, p := range problems {
		fmt.Fprintln(s.err, p)
		if !p.Warning {
			errors++
		}
	}
	if config.Failed(problems) {
		fmt.Fprintf(s.err, "%s: %s; nothing was written\n", file, count(errors, "error"))
		return &failure{code: exitProblems}
	}
	_, err = io.WriteString(s.out, text)
	return err
}

// readInput reads a file, or standard input for "-".
func readInput(s *streams, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(s.in)
	}
	data, err := os.ReadFile(file)
	return data, hinted(err, "the file is JSON of NS1's API; - is standard input")
}
