package filters

// selectFirstRegion keeps the candidates of the first one's group. Those without a group are one group, as at NS1.
type selectFirstRegion struct {
	groups []uint16 // by answer
}

func newSelectFirstRegion(b *build) Filter { return &selectFirstRegion{groups: b.groups()} }

// groups numbers the groups of the pool's answers, 0 for none.
func (b *build) groups() []uint16 {
	numbers := map[string]uint16{"": 0}
	groups := make([]uint16, len(b.pool.Answers))
	for i := range b.pool.Answers {
		name := b.pool.Answers[i].Group
		n, ok := numbers[name]
		if !ok {
			n = uint16(len(numbers))
			numbers[name] = n
		}
		groups[i] = n
	}
	return groups
}

func (f *selectFirstRegion) Run(x *Exec) {
	if len(x.List) == 0 {
		return
	}
	group, others := f.groups[x.List[0].Answer], false
	for _, c := range x.List {
		others = others || f.groups[c.Answer] != group
	}
	if !others {
		return
	}
	x.consume(1, true)
	for _, c := range x.List {
		if c.block == x.List[0].block && f.groups[c.Answer] != group { // another group could have been the first
			x.byChance()
			break
		}
	}
	kept := x.List[:0]
	for _, c := range x.List {
		if f.groups[c.Answer] == group {
			kept = append(kept, c)
		}
	}
	x.List = kept
	if x.Trace != nil {
		x.Trace.note(-1, "keeps group %s", quote(x.answer(kept[0]).Group))
	}
}
