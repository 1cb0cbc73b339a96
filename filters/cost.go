package filters

func newCost(b *build) Filter {
	f := &tiers{name: "cost", eliminate: b.boolean("eliminate")}
	for i := range b.pool.Answers {
		f.values = append(f.values, b.pool.Answers[i].Cost)
	}
	return f
}
