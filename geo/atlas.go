package geo

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// Atlas holds the compiled maps of all plans of a configuration over one source. It is immutable and part of the snapshot, apart from the zones.
type Atlas struct {
	src  Source
	maps []*Map
	keys map[string]*Map
}

// PlanError says which plan could not be compiled.
type PlanError struct {
	Plan int // number in the list given to BuildAtlas
	Err  error
}

func (e *PlanError) Error() string { return fmt.Sprintf("plan %d: %v", e.Plan, e.Err) }
func (e *PlanError) Unwrap() error { return e.Err }

// BuildAtlas compiles each distinct plan once, on as many processors as there are, and takes over the maps of prev (which may be nil) that were compiled from the same
// source and an equal plan; maps of ip_prefixes, which need no source, are taken over whatever the source. All plans that fail are reported, each as a *PlanError.
func BuildAtlas(src Source, plans []Plan, prev *Atlas) (*Atlas, error) {
	a := &Atlas{src: src, maps: make([]*Map, len(plans)), keys: map[string]*Map{}}
	type job struct {
		key  string
		plan int
	}
	var jobs []job
	key := make([]string, len(plans))
	for i, p := range plans {
		key[i] = p.Key()
		if _, ok := a.keys[key[i]]; ok {
			continue
		}
		a.keys[key[i]] = nil
		if prev != nil && (prev.src == src || p.Kind == MatchPrefix) {
			if m := prev.keys[key[i]]; m != nil {
				a.keys[key[i]] = m
				continue
			}
		}
		jobs = append(jobs, job{key[i], i})
	}
	made := make([]*Map, len(jobs))
	errs := make([]error, len(jobs))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for i := range next {
				var err error
				if made[i], err = Compile(src, plans[jobs[i].plan]); err != nil {
					errs[i] = &PlanError{Plan: jobs[i].plan, Err: err}
				}
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, j := range jobs {
		a.keys[j.key] = made[i]
	}
	for i := range plans {
		a.maps[i] = a.keys[key[i]]
	}
	return a, nil
}

// Map is the compiled map of plan n of the list given to BuildAtlas.
func (a *Atlas) Map(n int) *Map { return a.maps[n] }

// Len is the number of plans.
func (a *Atlas) Len() int { return len(a.maps) }

// Source is the location database behind the maps.
func (a *Atlas) Source() Source { return a.src }

// Databases describes the files behind the maps.
func (a *Atlas) Databases() []Database { return a.src.Databases() }
