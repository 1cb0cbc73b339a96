package cli

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/app"
	"github.com/edgesteer/edgesteer/server/config"
)

type testOptions struct {
	*streams
	config string
	output output
}

// casesFile is what `test` reads.
type casesFile struct {
	Cases []steeringCase `toml:"case"`
}

// steeringCase is one question, the state in which it is asked, and what is expected.
type steeringCase struct {
	Name   string     `toml:"name"`               // left out: the question
	Query  string     `toml:"query" need:"true"`  // name that is asked for
	Type   string     `toml:"type" default:"A"`   // of the query
	Client string     `toml:"client" need:"true"` // network or address that asks, as client subnet
	Sender string     `toml:"sender"`             // address that sends the query; left out: the client's
	State  caseState  `toml:"state"`              // left out: everything is up and nothing was said
	Expect caseExpect `toml:"expect" need:"true"` // at least one of its keys
}

// caseState is what is assumed. Targets are POP, POP/SERVICE or */SERVICE.
type caseState struct {
	Down  []string                  `toml:"down"`  // health says so
	Share map[string]config.Percent `toml:"share"` // of networks that a target gets
	Load  map[string]float64        `toml:"load"`  // in the unit of the service's metric
	Drain []caseDrain               `toml:"drain"`
	Shift []caseShift               `toml:"shift"`
	Pin   []string                  `toml:"pin"` // by a person
}

type caseDrain struct {
	Target string         `toml:"target" need:"true"`
	By     config.Percent `toml:"by" default:"100%" range:"1..100"`
	Class  string         `toml:"class" default:"person" oneof:"person, automation, drill"`
}

type caseShift struct {
	From string         `toml:"from" need:"true"`
	To   string         `toml:"to" need:"true"`
	By   config.Percent `toml:"by" default:"100%" range:"1..100"`
}

// caseExpect is what is expected; only what is there is compared.
type caseExpect struct {
	PoP      any    `toml:"pop"`      // or PoPs that the answer names, in order; not where chance decides
	Answer   any    `toml:"answer"`   // data of the record or records, in order
	Possible any    `toml:"possible"` // PoPs that chance may give, in any order
	Scope    *int   `toml:"scope" range:"0..128"`
	RCode    string `toml:"rcode"` // NOERROR, NXDOMAIN...
}

// testResult is what `test -o json` prints.
type testResult struct {
	Schema int          `json:"schema"`
	File   string       `json:"file"`
	Passed int          `json:"passed"`
	Failed int          `json:"failed"`
	Cases  []caseResult `json:"cases"`
}

// caseResult is one case, in the order of the file.
type caseResult struct {
	Name        string     `json:"name"`
	Line        int        `json:"line"`
	Passed      bool       `json:"passed"`
	Differences []mismatch `json:"differences,omitempty"`
	Warnings    []string   `json:"warnings,omitempty"` // what of the state changes nothing
}

// mismatch is one thing that is not as expected.
type mismatch struct {
	Field string `json:"field"` // pop, answer, possible, scope or rcode
	Line  int    `json:"line"`  // from 1
	Want  string `json:"want"`
	Got   string `json:"got"`
}

func newTest(s *streams) *cobra.Command {
	o := &testOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Run steering cases of your own against a configuration",
		Long: "Test asks the questions of a file as clients would, each in the state that it assumes (down, share, load, drain, shift, pin), and compares the answers with what is expected. " +
			"No server is needed: the answers are made by the code that serves.\n" +
			"It prints each difference and how many cases passed and failed. Exit code 4: there was a difference.",
		Example: "  edgesteer test steering.toml --config edgesteer.toml",
		Args:    arguments("FILE"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []cobra.Completion{"toml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	addConfig(cmd, &o.config)
	addOutput(cmd, &o.output)
	return cmd
}

func (o *testOptions) run(path string) error {
	var file casesFile
	doc, problems := config.ReadDocument(path, &file)
	if config.Failed(problems) {
		return config.Problems(problems)
	}
	if len(file.Cases) == 0 {
		return config.Problems{doc.Problem("there is no case", "a case begins with [[case]]")}
	}
	a, err := load(o.config)
	if err != nil {
		return err
	}
	result := testResult{Schema: 1, File: path, Cases: []caseResult{}}
	for i := range file.Cases {
		c := &file.Cases[i]
		if bad := c.Expect.check(doc, i); bad != nil {
			problems = append(problems, bad...)
			continue
		}
		e, err := a.Suppose(c.question(), c.State.assumptions())
		if err != nil {
			problems = append(problems, doc.Problem(err.Error(), "", "case", i))
			continue
		}
		line := func(field string) int { return doc.Line("case", i, "expect", field) }
		r := caseResult{Name: c.title(), Line: doc.Line("case", i), Differences: c.Expect.compare(e, line), Warnings: e.Warnings}
		for _, w := range e.Warnings {
			p := doc.Problem(w, "", "case", i, "state")
			p.Warning = true
			fmt.Fprintln(o.err, p)
		}
		if r.Differences == nil {
			r.Passed = true
			result.Passed++
		} else {
			result.Failed++
		}
		result.Cases = append(result.Cases, r)
	}
	if config.Failed(problems) {
		return config.Problems(problems)
	}
	return o.report(&result)
}

func (o *testOptions) report(result *testResult) error {
	if o.output == "json" {
		if err := o.json(result); err != nil {
			return err
		}
	} else {
		for _, c := range result.Cases {
			for _, d := range c.Differences {
				fmt.Fprintf(o.out, "%s:%d: %s: %s: want %s, got %s\n", result.File, d.Line, c.Name, d.Field, d.Want, d.Got)
			}
		}
		fmt.Fprintf(o.out, "%d passed, %d failed\n", result.Passed, result.Failed)
	}
	if result.Failed > 0 {
		return &failure{code: exitProblems}
	}
	return nil
}

// load builds a server from a configuration, which answers questions and listens nowhere.
func load(path string) (*app.App, error) {
	cfg, problems := config.Load(path)
	if config.Failed(problems) {
		return nil, hinted(config.Problems(problems), "edgesteer check --config "+path)
	}
	a, err := app.New(cfg, app.Options{Log: slog.New(slog.DiscardHandler), Version: build().String()})
	return a, hinted(err, "edgesteer check --config "+path)
}

func (c *steeringCase) title() string {
	if c.Name != "" {
		return c.Name
	}
	return fmt.Sprintf("%s %s from %s", c.Query, c.Type, c.Client)
}

func (c *steeringCase) question() api.ExplainQuery {
	return api.ExplainQuery{Name: c.Query, Type: strings.ToUpper(c.Type), Client: c.Client, Sender: c.Sender}
}

func (s *caseState) assumptions() app.Assumptions {
	a := app.Assumptions{Down: s.Down, Load: s.Load, Share: map[string]float64{}}
	for target, share := range s.Share {
		a.Share[target] = float64(share)
	}
	for _, d := range s.Drain {
		a.Statements = append(a.Statements, api.Statement{Kind: api.KindDrain, Class: api.Class(d.Class), Target: d.Target, By: float64(d.By)})
	}
	for _, d := range s.Shift {
		a.Statements = append(a.Statements, api.Statement{Kind: api.KindShift, Target: d.From, To: d.To, By: float64(d.By)})
	}
	for _, target := range s.Pin {
		a.Statements = append(a.Statements, api.Statement{Kind: api.KindPin, Target: target})
	}
	return a
}

// check gives what is wrong with the types of what is expected.
func (x *caseExpect) check(doc *config.Document, i int) (problems []config.Problem) {
	if x.PoP == nil && x.Answer == nil && x.Possible == nil && x.Scope == nil && x.RCode == "" {
		return []config.Problem{doc.Problem("nothing is expected", "give pop, answer, possible, scope or rcode", "case", i, "expect")}
	}
	for field, v := range map[string]any{"pop": x.PoP, "answer": x.Answer, "possible": x.Possible} {
		if _, ok := texts(v); !ok {
			problems = append(problems, doc.Problem("want a string or a list of strings", "", "case", i, "expect", field))
		}
	}
	if _, ok := dns.StringToRcode[strings.ToUpper(x.RCode)]; x.RCode != "" && !ok {
		hint := config.DidYouMean(x.RCode, slices.Collect(maps.Keys(dns.StringToRcode)))
		problems = append(problems, doc.Problem(fmt.Sprintf("unknown response code %q", x.RCode), cmp.Or(hint, "NOERROR, NXDOMAIN, SERVFAIL or REFUSED"), "case", i, "expect", "rcode"))
	}
	return problems
}

// texts is a text or a list of texts.
func texts(v any) (out []string, ok bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return []string{v}, true
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}

// compare gives what is not as expected.
func (x *caseExpect) compare(e *api.Explanation, line func(field string) int) (out []mismatch) {
	check := func(field, want, got string) {
		if want != got {
			out = append(out, mismatch{field, line(field), want, got})
		}
	}
	pops := answered(e)
	if want, _ := texts(x.PoP); x.PoP != nil {
		got := list(pops)
		if chance(e, pops) {
			got = "one of " + list(e.Possible) + ": chance decides, expect possible instead"
		}
		check("pop", list(want), got)
	}
	if want, _ := texts(x.Answer); x.Answer != nil {
		check("answer", list(want), list(data(e.Answer)))
	}
	if want, _ := texts(x.Possible); x.Possible != nil {
		got := list(sorted(e.Possible))
		if got != list(sorted(want)) && e.PossibleAtMost {
			got = "at most " + got
		}
		check("possible", list(sorted(want)), got)
	}
	if x.Scope != nil {
		check("scope", "/"+strconv.Itoa(*x.Scope), "/"+strconv.Itoa(e.Scope))
	}
	if x.RCode != "" {
		check("rcode", strings.ToUpper(x.RCode), e.RCode)
	}
	return out
}

// answered are the PoPs, or the data of explicit answers, that the chain left.
func answered(e *api.Explanation) []string {
	if len(e.Links) == 0 || len(e.Answer) == 0 { // nothing was given, whatever the chain left
		return nil
	}
	steps := e.Links[len(e.Links)-1].Steps
	if len(steps) == 0 {
		return e.Possible
	}
	var out []string
	for _, c := range steps[len(steps)-1].After {
		if c.Serves != "" {
			out = append(out, c.Serves)
		} else {
			out = append(out, c.Answer)
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(s string) bool { // after a shift two candidates may have one endpoint: it is given once
		again := seen[s]
		seen[s] = true
		return again
	})
}

// chance tells whether another draw could have given other PoPs.
func chance(e *api.Explanation, pops []string) bool {
	return !slices.Equal(sorted(pops), sorted(e.Possible))
}

// data is that of records in master file form: owner, TTL, class and type come before it.
func data(records []string) (out []string) {
	for _, r := range records {
		if fields := strings.Fields(r); len(fields) > 4 {
			out = append(out, strings.Join(fields[4:], " "))
		}
	}
	return out
}

func list(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

func sorted(words []string) []string { return slices.Sorted(slices.Values(words)) }
