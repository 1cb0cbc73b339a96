package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/edgesteer/edgesteer/pops"
	"github.com/edgesteer/edgesteer/pops/drain"
	"github.com/edgesteer/edgesteer/server/api"
)

// maxAlerts is the most alerts of one request.
const maxAlerts = 1000

// lenient reads what others define: fields that are not known here are theirs.
func lenient(data []byte, into any) *api.Problem {
	if err := json.Unmarshal(data, into); err != nil {
		return badRequest("this is not what Alertmanager sends: "+err.Error(), "")
	}
	return nil
}

// alertmanager is POST /v1/webhooks/alertmanager. Each alert is dealt with for itself. The status tells Alertmanager what to do: 503 to send all of it again, which is safe, and 422 to
// complain, because a label names something that does not exist. A guard rail that holds is no reason to complain.
func (s *Server) alertmanager(c *call, g *api.AlertGroup) (*api.AlertAnswer, error) {
	if g.Version != "4" {
		return nil, invalid("version", fmt.Sprintf("this is version %q of Alertmanager's format", g.Version), "version 4 is understood")
	}
	if len(g.Alerts) > maxAlerts {
		return nil, problem(http.StatusRequestEntityTooLarge, api.ProblemTooLarge, fmt.Sprintf("%d alerts are more than %d", len(g.Alerts), maxAlerts), "set max_alerts in Alertmanager's webhook_config")
	}
	out := &api.AlertAnswer{Schema: api.Schema, Alerts: []api.AlertResult{}}
	var failed error
	for i := range g.Alerts {
		s.cfg.Alerted(g.Alerts[i].Labels["alertname"], g.Alerts[i].Status != "resolved")
		result, err := s.alert(c, &g.Alerts[i])
		if err != nil {
			result.Error = err.Error()
			var p *api.Problem
			errors.As(err, &p)
			switch {
			case p == nil || p.Status >= 500:
				result.Outcome, failed = api.AlertFailed, err
			case p.Type == api.ProblemUnknown || p.Type == api.ProblemInvalid:
				result.Outcome = api.AlertRefused
				if failed == nil {
					failed = problem(http.StatusUnprocessableEntity, p.Type, fmt.Sprintf("alert %s: %v", result.Fingerprint, err), p.Hint)
				}
			default:
				result.Outcome = api.AlertRefused
			}
		}
		s.metrics.alerts.WithLabelValues(string(result.Outcome)).Inc()
		out.Alerts = append(out.Alerts, result)
	}
	if err := s.cfg.Rebuild(); err != nil {
		return nil, unavailable("accepted, but not in the answers of this node yet: "+err.Error(), "")
	}
	return out, failed
}

// alert does what one alert asks for.
func (s *Server) alert(c *call, a *api.Alert) (api.AlertResult, error) {
	result := api.AlertResult{Fingerprint: a.Fingerprint}
	pop, service := a.Labels["pop"], a.Labels["service"]
	switch {
	case pop == "" && service == "":
		result.Outcome = api.AlertIgnored
		return result, nil
	case pop == "":
		pop = pops.Everywhere
	}
	result.Target = pops.Target{PoP: pop, Service: service}.String()
	if a.Fingerprint == "" || a.StartsAt.IsZero() {
		return result, invalid("fingerprint", "an alert without fingerprint and startsAt cannot be told from others", "")
	}
	target, err := s.target("labels", result.Target)
	if err != nil {
		return result, err
	}
	rules := s.cfg.Automation(target)
	outage := a.Fingerprint + " " + a.StartsAt.UTC().Format(time.RFC3339Nano)
	if a.Status == "resolved" {
		return s.resolved(c, a, target, outage, &rules, result)
	}
	if !rules.Enabled {
		result.Outcome, result.Error = api.AlertIgnored, "automation is not enabled"
		return result, nil
	}
	result.Outcome = api.AlertDrained
	r := drain.Request{
		Kind:     pops.Drain,
		Target:   target,
		By:       100,
		Author:   c.by.name,
		Role:     pops.Automation,
		Reason:   alertReason(a),
		Outage:   outage,
		Back:     rules.Back,
		Evidence: []string{tidy("alert "+a.Labels["alertname"]+" "+a.Fingerprint, maxEvidence)},
	}
	if len(a.GeneratorURL) <= maxTicket {
		r.Ticket = a.GeneratorURL
	}
	done, err := s.cfg.Ledger.Apply(r)
	if err != nil {
		return result, refusal(err, nil)
	}
	result.Statement = done.Statements[0].ID
	return result, nil
}

// What is taken over of an alert, in octets; the ledger takes no more.
const (
	maxTicket   = 256
	maxEvidence = 256
	maxReason   = 1024
)

// resolved ends the drain of an outage, if there is one: who resolves alerts also sends those that never made one. If it is to be held for a while it gets an end instead, counted from that of the
// outage, so that whoever says it again, or to another node, moves nothing.
func (s *Server) resolved(c *call, a *api.Alert, target pops.Target, outage string, rules *Automation, result api.AlertResult) (api.AlertResult, error) {
	entries := s.cfg.Ledger.Statements()
	i := slices.IndexFunc(entries, func(e *drain.Entry) bool { return e.Outage == outage && e.Target == target })
	if i < 0 {
		result.Outcome = api.AlertIgnored
		return result, nil
	}
	e, now := entries[i], s.cfg.Ledger.Now()
	result.Outcome, result.Statement = api.AlertLifted, e.ID
	ended := now
	if !a.EndsAt.IsZero() && a.EndsAt.Before(now) {
		ended = a.EndsAt
	}
	left := ended.Add(rules.Hold).Sub(now)
	var err error
	switch {
	case !e.Live(now):
	case left <= 0:
		_, err = s.cfg.Ledger.Lift(drain.LiftRequest{IDs: []string{e.ID}, Author: c.by.name, Role: pops.Automation, Reason: "resolved: " + alertReason(a)})
	default:
		result.Outcome = api.AlertHeld
		left = max(left, drain.MinFor)
		if e.Expires.Sub(now) > left+drain.MinFor {
			_, err = s.cfg.Ledger.Renew(drain.RenewRequest{IDs: []string{e.ID}, Author: c.by.name, Role: pops.Automation, For: left, Reason: fmt.Sprintf("resolved, held for %s: %s", left.Round(time.Second), alertReason(a))})
		}
	}
	if err != nil {
		return result, refusal(err, nil)
	}
	return result, nil
}

// alertReason is what an alert says of itself.
func alertReason(a *api.Alert) string {
	about := cmp.Or(strings.TrimSpace(a.Annotations["summary"]), strings.TrimSpace(a.Annotations["description"]), strings.TrimSpace(a.Annotations["message"]), "firing")
	return tidy("alert "+a.Labels["alertname"]+": "+about, maxReason)
}

// tidy makes text that a template has put together fit for the ledger: no drain is refused for an odd character in it.
func tidy(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), most)], "?")
}
