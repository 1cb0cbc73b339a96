package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionOptions struct {
	*streams
	output output
}

// versionInfo is what `version -o json` prints.
type versionInfo struct {
	Schema       int           `json:"schema"`
	Version      string        `json:"version"`            // of the module, or "devel"
	Revision     string        `json:"revision,omitempty"` // of version control
	Time         string        `json:"time,omitempty"`     // of the revision
	Modified     bool          `json:"modified,omitempty"` // the source had changes that are in no revision
	Go           string        `json:"go"`
	Platform     string        `json:"platform"`
	Attributions []attribution `json:"attributions"`
}

// attribution is data that came from others and is in the binary.
type attribution struct {
	Text    string `json:"text"`
	Licence string `json:"licence"`
	URL     string `json:"url"`
}

func newVersion(s *streams) *cobra.Command {
	o := &versionOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and whose data is in the binary",
		Args:  arguments(),
		RunE:  func(*cobra.Command, []string) error { return o.run() },
	}
	addOutput(cmd, &o.output)
	return cmd
}

func (o *versionOptions) run() error {
	v := build()
	if o.output == "json" {
		return o.json(v)
	}
	fmt.Fprintf(o.out, "edgesteer %s (%s, %s)\n", v, v.Go, v.Platform)
	for _, a := range v.Attributions {
		fmt.Fprintf(o.out, "%s (%s), %s\n", a.Text, a.Licence, a.URL)
	}
	return nil
}

// String is the version in a word, with the revision if there is one.
func (v versionInfo) String() string {
	if v.Revision == "" {
		return v.Version
	}
	s := v.Version + " " + v.Revision[:min(12, len(v.Revision))]
	if v.Modified {
		s += "+changes"
	}
	return s
}

func build() versionInfo {
	v := versionInfo{
		Schema: 1, Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Attributions: []attribution{
			{"IP Geolocation by DB-IP", "CC BY 4.0", "https://db-ip.com"},
			{"Made with Natural Earth", "public domain", "https://www.naturalearthdata.com"},
		},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
