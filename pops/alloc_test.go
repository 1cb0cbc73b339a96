//go:build !race

package pops

import "testing"

// TestAllocations: what the answer path calls does not allocate.
func TestAllocations(t *testing.T) {
	f, in := bigFleet()
	v := NewView(f, in)
	list := networks(64)
	sum := 0.0
	for name, run := range map[string]func(){
		"Hash":  func() { sum += Bucket(TagShed, list[0], "eu-west-1/envoy-wss") },
		"long":  func() { sum += Bucket(TagShed, list[1], longName) },
		"Ramp":  func() { sum += float64(Ramp{Start: noon, To: 1, Over: 100}.Share(noon)) },
		"Value": func() { n, _ := v.Number(f.Endpoints[0].Low); sum += n },
		"View": func() {
			for u := range Unit(f.Units()) {
				for rung := RungBucket; rung <= RungAll; rung++ {
					if in, _ := v.Available(u, list[int(u)%len(list)], rung); !in {
						v.Shift(u, list[int(u)%len(list)], rung)
					}
					sum += float64(v.Dead(u, rung))
				}
			}
		},
	} {
		if n := testing.AllocsPerRun(10, run); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

var longName = string(make([]byte, 1000))

func BenchmarkAvailable(b *testing.B) {
	f, in := bigFleet()
	v := NewView(f, in)
	list := networks(1024)
	i := 0
	for b.Loop() {
		v.Available(Unit(i%len(f.Endpoints)), list[i%len(list)], RungBucket)
		i++
	}
}
