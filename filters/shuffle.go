package filters

// shuffle puts the candidates into a random order, another one for each query.
type shuffle struct{}

func newShuffle(*build) Filter { return shuffle{} }

func (shuffle) Run(x *Exec) {
	if x.Luck != 0 {
		x.shuffleByLuck()
	} else {
		for i := len(x.List) - 1; i > 0; i-- {
			j := x.Rand.IntN(i + 1)
			x.List[i], x.List[j] = x.List[j], x.List[i]
		}
	}
	x.unordered()
	x.oneBlock()
}
