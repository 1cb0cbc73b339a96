package health

import (
	"container/heap"
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// The schedule: every address has a phase, the same for as long as its name lasts, at which it is checked once per interval, give or take a little; so the checks of a node are spread evenly, and those of
// several nodes do not meet. One goroutine starts them, and each probe under way is one more.

const (
	firstRound = time.Second           // an address of which nothing is known is checked within it
	jitter     = 0.05                  // of the interval, to both sides
	least      = 10 * time.Millisecond // between two looks at the queue: what is due in between is started together
	quiet      = 100 * time.Millisecond
	atMost     = 5 * time.Second // between two looks at the verdicts, since votes grow old
	keepEvery  = time.Minute     // verdicts on disk are younger
)

// job is an address that is checked.
type job struct {
	target  *target
	address netip.Addr
	phase   time.Duration // below the interval
	next    time.Time
	tally   tally
	gone    bool // the plan has changed: whatever comes of the probe is dropped
}

// phase spreads checks over their interval.
func phase(node, target string, a netip.Addr, interval time.Duration) time.Duration {
	h := fnv.New64a()
	for _, s := range []string{node, "\x00", target, "\x00", a.String()} {
		_, _ = h.Write([]byte(s)) // never fails
	}
	x := h.Sum64() // the last octets have hardly moved the high bits: mix them (Stafford's variant 13)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return time.Duration(float64(x>>11) / (1 << 53) * float64(interval))
}

// first is when a job runs for the first time in this process: soon if nothing is known of the address.
func (j *job) first(now time.Time) time.Time {
	if j.tally.mood == unknown {
		return now.Add(time.Duration(float64(j.phase) / float64(j.target.interval) * float64(firstRound)))
	}
	return j.after(now)
}

// after is the first time at or after t at which the job is due, by its phase.
func (j *job) after(t time.Time) time.Time {
	n := t.Truncate(j.target.interval).Add(j.phase)
	if n.Before(t) {
		n = n.Add(j.target.interval)
	}
	// Truncate drops the reading of the monotonic clock: take the distance only.
	return t.Add(n.Sub(t.Round(0)))
}

// again is when a job runs after it was due at a time: an interval later, give or take the jitter, but never before now.
func (j *job) again(due, now time.Time) time.Time {
	interval := j.target.interval
	n := j.after(due.Add(interval / 2))
	n = n.Add(time.Duration((2*rand.Float64() - 1) * jitter * float64(interval)))
	if n.Before(now) {
		return now
	}
	return n
}

// queue is a heap of jobs, the next first.
type queue []*job

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, k int) bool { return compareJobs(q[i], q[k]) < 0 }
func (q queue) Swap(i, k int)      { q[i], q[k] = q[k], q[i] }

// Push is heap.Interface's.
func (q *queue) Push(x any) { *q = append(*q, x.(*job)) } //nolint:forcetypeassert // only jobs

// Pop is heap.Interface's.
func (q *queue) Pop() any {
	last := len(*q) - 1
	j := (*q)[last]
	*q = (*q)[:last]
	return j
}

func (q *queue) push(j *job) { heap.Push(q, j) }
func (q *queue) pop() *job   { return heap.Pop(q).(*job) } //nolint:forcetypeassert // only jobs

// Run checks, votes and keeps the verdicts until ctx ends; it returns when all probes have.
func (m *Monitor) Run(ctx context.Context) {
	var disk sync.WaitGroup
	disk.Go(func() { m.keep(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(m.step(ctx))
		select {
		case <-ctx.Done():
			m.running.Wait()
			disk.Wait()
			return
		case <-timer.C:
		case <-m.wake:
		}
	}
}

// step starts what is due and looks at the verdicts, and says how long there is nothing to do.
func (m *Monitor) step(ctx context.Context) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for len(m.queue) > 0 && m.busy < maxProbes && !m.queue[0].next.After(now) && ctx.Err() == nil {
		j := m.queue.pop()
		m.busy++
		m.metrics.late.Observe(now.Sub(j.next).Seconds())
		m.running.Go(func() { m.probe(ctx, j) })
	}
	wait := time.Second
	if len(m.queue) > 0 && m.busy < maxProbes {
		wait = min(wait, max(least, m.queue[0].next.Sub(now)))
	}
	fleet := m.now()
	if since := fleet.Sub(m.beaten); since >= m.shortest || since < 0 {
		m.beaten = fleet
		m.beat(fleet)
		m.send(nil)
	}
	switch since := fleet.Sub(m.evaluated); {
	case since >= atMost || since < 0 || m.dirty && since >= quiet:
		m.evaluate(fleet)
	case m.dirty:
		wait = min(wait, quiet-since)
	}
	if since := fleet.Sub(m.stirredAt); m.stirred && !m.dirty && (since >= time.Second || since < 0) { // the verdict that ends a wavering comes first
		m.stirred, m.stirredAt = false, fleet
		m.tellChanged()
	}
	if since := fleet.Sub(m.kept); since >= keepEvery || since < 0 {
		m.save()
	}
	return wait
}

// wavers says whether any address of an endpoint does.
func wavers(jobs []*job) bool {
	return slices.ContainsFunc(jobs, func(j *job) bool { return j.tally.wavers() })
}

// probe checks an address and takes in what comes of it.
func (m *Monitor) probe(ctx context.Context, j *job) {
	start := time.Now()
	warning, err := try(ctx, j.target, j.address)
	end := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy--
	if j.gone || ctx.Err() != nil {
		m.nudge()
		return
	}
	m.metrics.count(j.target.kind, err, end.Sub(start))
	t := &j.tally
	first, was := t.last.IsZero(), t.wavers()
	t.last, t.took, t.warning = m.now(), end.Sub(start), warning
	var local *localError
	switch {
	case errors.As(err, &local): // says nothing of the address
		t.fault = local.text
	case t.record(err, t.last, j.target.fall, j.target.rise) || t.mood == down:
		m.vote(j.target)
	}
	m.dirty = m.dirty || first
	m.stirred = m.stirred || t.wavers() != was
	j.next = j.again(j.next, end)
	m.queue.push(j)
	if m.dirty || m.queue[0] == j || m.busy == maxProbes-1 {
		m.nudge()
	}
}

// try probes an address once. A warning is no error.
func try(ctx context.Context, t *target, a netip.Addr) (warning string, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	err = short(t.check.Probe(ctx, a))
	if w, ok := errors.AsType[*Warning](err); ok {
		return w.Text, nil
	}
	return "", err
}
