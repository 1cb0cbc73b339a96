package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pages writes the pages of a command and of those below it.
func pages(c *cobra.Command, out string, date time.Time) error {
	if c.Hidden {
		return nil
	}
	for _, sub := range c.Commands() {
		if err := pages(sub, out, date); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, pageName(c)+".1"), md2man.Render([]byte(page(c, date))), 0o644)
}

// pageName is the name of a command's page: edgesteer-pop-list.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page is the page of a command, in Markdown.
func page(c *cobra.Command, date time.Time) string {
	var b strings.Builder
	short := strings.ToLower(c.Short[:1]) + c.Short[1:]
	b.WriteString(head(pageName(c), "1", date, short))
	fmt.Fprintf(&b, "# SYNOPSIS\n\n**%s**%s\n\n", c.CommandPath(), escape(strings.TrimPrefix(c.UseLine(), c.CommandPath())))
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	b.WriteString("# DESCRIPTION\n\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(prose(line) + "\n\n")
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("# COMMANDS\n\n")
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				fmt.Fprintf(&b, "**%s(1)**\n: %s\n\n", pageName(sub), prose(sub.Short))
			}
		}
	}
	options(&b, c)
	if c.HasExample() {
		b.WriteString("# EXAMPLES\n\n```\n" + strings.ReplaceAll("\n"+c.Example, "\n  ", "\n")[1:] + "\n```\n\n")
	}
	b.WriteString("# ENVIRONMENT\n\nEvery flag can also be given as **EDGESTEER_FLAG**, upper case with underscores, for example **EDGESTEER_CONFIG**. **NO_COLOR** is respected.\n\n")
	b.WriteString("# EXIT STATUS\n\n0 done; 1 error; 2 wrong usage; 3 done here but not converged in time; 4 a check or test found problems.\n\n")
	also := []string{"**edgesteer.toml(5)**"}
	if c.HasParent() {
		also = append(also, "**"+pageName(c.Parent())+"(1)**")
	}
	b.WriteString("# SEE ALSO\n\n" + strings.Join(also, ", ") + "\n")
	return b.String()
}

// options lists the flags with what they take.
func options(b *strings.Builder, c *cobra.Command) {
	var list []string
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		title := "**--" + f.Name + "**"
		if f.Shorthand != "" {
			title = "**-" + f.Shorthand + "**, " + title
		}
		switch {
		case name == "":
		case f.NoOptDefVal == "":
			title += " *" + name + "*"
		default: // may be given without a value
			title += "[=*" + name + "*]"
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" && !strings.Contains(usage, "left out") {
			usage += " (default " + f.DefValue + ")"
		}
		list = append(list, title+"\n: "+prose(usage)+"\n\n")
	})
	if len(list) > 0 {
		b.WriteString("# OPTIONS\n\n" + strings.Join(list, ""))
	}
}

// prose escapes what Markdown would take for markup, but for `code`, which becomes bold.
func prose(text string) string {
	parts := strings.Split(text, "`")
	for i := range parts {
		parts[i] = escape(parts[i])
		if i%2 == 1 && i < len(parts)-1 {
			parts[i] = "**" + parts[i] + "**"
		}
	}
	return strings.Join(parts, "")
}

func escape(text string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, ">", `\>`).Replace(text)
}
