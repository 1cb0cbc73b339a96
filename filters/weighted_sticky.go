package filters

func newWeightedSticky(b *build) Filter {
	return &weighted{weights: b.weights(), sticky: true, hash: clientHash{tag: tagWeighted, network: b.boolean("sticky_by_network")}}
}
