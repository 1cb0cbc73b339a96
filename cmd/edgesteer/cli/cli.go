// Package cli is the edgesteer command: one file a command, each made by a constructor that takes the streams and holds its flags in a struct.
//
// Commands parse, ask and print. Serving, checking and explaining are done by server/app, operating a running node by the client in server/api.
// stdout is the result, stderr everything else.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edgesteer/edgesteer/server/api"
	"github.com/edgesteer/edgesteer/server/config"
)

// Exit codes. Scripts hold on to them.
const (
	exitDone     = 0
	exitError    = 1
	exitUsage    = 2
	exitLate     = 3 // done here but not converged in time
	exitProblems = 4 // a check or test found problems
)

// Main runs one command and gives its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newStreams(stdin, stdout, stderr).run(args)
}

// run runs one command and gives its exit code.
func (s *streams) run(args []string) int {
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.Background())
	if o := cmd.Flags().Lookup("output"); o != nil && o.Value.String() == "json" {
		s.problem(err)
	}
	return s.report(s.written(err))
}

// problem writes what the server refuses as the result, for programs that want JSON and have got none.
func (s *streams) problem(err error) {
	if p, ok := errors.AsType[*api.Problem](err); ok && !s.told {
		_ = s.json(p) // what cannot be written is told at the end
	}
}

// written is err, or that the result could not be written. One who does not read the result of an order to its end has it carried out all the same.
func (s *streams) written(err error) error {
	out, ok := s.out.(*sink)
	if !ok || out.err == nil || err != nil && !errors.Is(err, out.err) {
		return err
	}
	switch {
	case s.ordered && errors.Is(out.err, syscall.EPIPE):
		return nil
	case s.ordered:
		return hinted(fmt.Errorf("it is done, but the result cannot be written: %w", out.err), "edgesteer history shows it")
	}
	return fmt.Errorf("the result cannot be written: %w", out.err)
}

// Command is the tree of all commands, for those who make documents of it.
func Command() *cobra.Command {
	return newRoot(newStreams(strings.NewReader(""), io.Discard, io.Discard))
}

// failure is an error with an exit code and what to do about it. An err of nil has been reported already.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// wrong is an error of usage. Its hint is a command that can be pasted.
func wrong(hint, format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint}
}

// hinted adds what to do to an error.
func hinted(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &failure{code: exitError, err: err, hint: hint}
}

// report writes what happened and a hint to stderr.
func (s *streams) report(err error) int {
	if err == nil {
		return exitDone
	}
	code, hint := exitError, ""
	if f, ok := errors.AsType[*failure](err); ok {
		code, hint = f.code, f.hint
	}
	if a, ok := errors.AsType[interface {
		error
		Advice() string
	}](err); ok && hint == "" {
		hint = a.Advice() // of the API
	}
	if p, ok := errors.AsType[*api.Problem](err); ok && code == exitError && (p.Type == api.ProblemInvalid || p.Type == api.ProblemBadRequest) {
		code = exitUsage
	}
	problems, isProblems := errors.AsType[config.Problems](err)
	switch {
	case isProblems:
		for _, p := range problems {
			fmt.Fprintln(s.err, p)
		}
	case err.Error() != "" && isProblem(err):
		fmt.Fprintf(s.err, "edgesteer: %s\n", oneLine(err.Error()))
	case err.Error() != "":
		fmt.Fprintf(s.err, "edgesteer: %v\n", err)
	}
	if hint != "" {
		fmt.Fprintf(s.err, "hint: %s\n", hint)
	}
	return code
}
