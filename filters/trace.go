package filters

import "fmt"

// Trace records a run for people: explain, simulate and test hang one into the Exec. Recording allocates; answers are the same with and without it.
type Trace struct {
	Steps []TraceStep
}

// TraceStep is what one filter did.
type TraceStep struct {
	Name, Args    string
	Before, After []Candidate
	Notes         []Note // why a candidate went or moved, and what was special
	Bits          uint8  // scope so far; orders count when something looks at them, draws at the latest at the end
}

// Note is a remark on a candidate; Answer is -1 when it speaks of the step as a whole.
type Note struct {
	Answer int
	Text   string
}

func (t *Trace) before(x *Exec, s *Step) {
	t.Steps = append(t.Steps, TraceStep{Name: s.Name, Args: s.Args, Before: append([]Candidate(nil), x.List...)})
}

func (t *Trace) after(x *Exec) {
	s := &t.Steps[len(t.Steps)-1]
	s.After = append([]Candidate(nil), x.List...)
	s.Bits = x.Bits()
}

// note adds a remark to the running step. Callers check x.Trace first, so that nothing is formatted for nobody.
func (t *Trace) note(answer int, format string, args ...any) {
	if len(t.Steps) == 0 {
		return
	}
	s := &t.Steps[len(t.Steps)-1]
	s.Notes = append(s.Notes, Note{Answer: answer, Text: fmt.Sprintf(format, args...)})
}
