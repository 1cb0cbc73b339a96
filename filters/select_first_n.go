package filters

// selectFirstN keeps the first n candidates.
type selectFirstN struct{ n int }

func newSelectFirstN(b *build) Filter { return &selectFirstN{n: b.number("N")} }

func (f *selectFirstN) Run(x *Exec) {
	if x.Trace != nil {
		for i := f.n; i < len(x.List); i++ {
			x.Trace.note(int(x.List[i].Answer), "cut: place %d > N %d", i+1, f.n)
		}
	}
	x.Cut(f.n)
}
