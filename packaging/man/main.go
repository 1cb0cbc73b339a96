// Man writes the manual pages: one for each command, made from what the commands say of themselves, and edgesteer.toml(5), made from the reference of the configuration.
//
//	go run ./packaging/man -out dist/man
//
// The date in them is SOURCE_DATE_EPOCH, so that the same source gives the same pages.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"

	"github.com/edgesteer/edgesteer/cmd/edgesteer/cli"
)

func main() {
	out := flag.String("out", "dist/man", "folder of the pages")
	reference := flag.String("config", "server/config/README.md", "reference of the configuration")
	flag.Parse()
	if err := run(*out, *reference); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(out, reference string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return errors.New("SOURCE_DATE_EPOCH is not a number of seconds; for example: git log -1 --format=%ct")
	}
	date := time.Unix(epoch, 0).UTC()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := pages(cli.Command(), out, date); err != nil {
		return err
	}
	page, err := configuration(reference, date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "edgesteer.toml.5"), page, 0o644)
}

// head is the start of a page.
func head(name, section string, date time.Time, short string) string {
	return fmt.Sprintf("%% %q %q %q \"edgesteer\" \"edgesteer manual\"\n\n# NAME\n\n%s - %s\n\n", strings.ToUpper(name), section, date.Format("2006-01-02"), name, short)
}

// configuration makes edgesteer.toml(5) of the keys in the reference.
func configuration(reference string, date time.Time) ([]byte, error) {
	text, err := os.ReadFile(reference)
	if err != nil {
		return nil, err
	}
	_, keys, ok1 := strings.Cut(string(text), "<!-- keys: made by go generate from the types -->\n")
	keys, _, ok2 := strings.Cut(keys, "<!-- end of keys -->")
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%s has no keys", reference)
	}
	var b strings.Builder
	b.WriteString(head("edgesteer.toml", "5", date, "configuration of the edgesteer DNS server"))
	b.WriteString("# DESCRIPTION\n\nA TOML file. An unknown key is an error. Durations are written \"30s\", \"5m\", \"8h\", shares \"37%\", sizes as plain numbers; relative paths start at the " +
		"folder of the file. **edgesteer check --config** FILE reports everything that is wrong at once.\n\n")
	b.WriteString("# KEYS\n\n" + definitions(keys))
	b.WriteString("\n# SEE ALSO\n\n**edgesteer-check(1)**, **edgesteer-serve(1)**\n")
	return md2man.Render([]byte(b.String())), nil
}

// definitions turns the reference's tables, which are too wide for a terminal, into lists of terms.
func definitions(keys string) string {
	var b strings.Builder
	for line := range strings.Lines(keys) {
		cells, ok := strings.CutPrefix(strings.TrimSpace(line), "| `")
		if !ok {
			if !strings.HasPrefix(line, "|") { // no heading of a table
				b.WriteString(strings.Replace(line, "### ", "## ", 1))
			}
			continue
		}
		c := strings.Split(strings.TrimSuffix(cells, " |"), " | ")
		for len(c) < 5 { // key, type, default, allowed, meaning
			c = append(c, "")
		}
		fmt.Fprintf(&b, "**%s** (%s)\n: %s", strings.Trim(c[0], "` "), strings.TrimSpace(c[1]), strings.TrimSpace(c[4]))
		for i, word := range []string{2: "default", 3: "allowed"} {
			if v := strings.TrimSpace(c[i]); word != "" && v != "" {
				fmt.Fprintf(&b, "; %s %s", word, v)
			}
		}
		b.WriteString("\n\n")
	}
	return b.String()
}
