package filters

// stickyRegion puts the groups into an order that is the same for one client at all times; within a group the order stays. Candidates without a group are one group.
type stickyRegion struct{ hash clientHash }

func newStickyRegion(b *build) Filter {
	return &stickyRegion{hash: clientHash{tag: tagRegion, network: b.boolean("sticky_by_network")}}
}

func (f *stickyRegion) Run(x *Exec) {
	x.keys = x.keys[:0]
	for _, c := range x.List {
		x.keys = append(x.keys, keyed{key: f.hash.unit(x, x.answer(c).Group), cand: c})
	}
	x.sortByKeys()
	x.addOrder(order{hash: f.hash.bits(x)})
}
