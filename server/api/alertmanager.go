package api

import "time"

// AlertGroup is what Alertmanager posts to a webhook (version 4 of its format), as far as it is used here. Other fields are ignored.
type AlertGroup struct {
	Version  string  `json:"version"`  // "4"
	GroupKey string  `json:"groupKey"` // of the group
	Status   string  `json:"status"`   // firing or resolved
	Receiver string  `json:"receiver"` // name in Alertmanager's configuration
	Alerts   []Alert `json:"alerts"`   // at most 1000
}

// Alert is one alert of a group.
type Alert struct {
	Status       string            `json:"status"`       // firing or resolved
	Labels       map[string]string `json:"labels"`       // pop and service name the target
	Annotations  map[string]string `json:"annotations"`  // summary or description give the reason
	StartsAt     time.Time         `json:"startsAt"`     // with the fingerprint: which outage it is
	EndsAt       time.Time         `json:"endsAt"`       // of a resolved alert
	GeneratorURL string            `json:"generatorURL"` // becomes the ticket
	Fingerprint  string            `json:"fingerprint"`  // of the labels
}

// AlertAnswer is the answer of POST /v1/webhooks/alertmanager.
type AlertAnswer struct {
	Schema int           `json:"schema"` // version of these types
	Alerts []AlertResult `json:"alerts"` // in the order of the request
}

// AlertResult is what one alert did.
type AlertResult struct {
	Fingerprint string       `json:"fingerprint"`         // of the alert
	Target      string       `json:"target,omitempty"`    // that its labels name
	Outcome     AlertOutcome `json:"outcome"`             // what was done
	Statement   string       `json:"statement,omitempty"` // id of the drain
	Error       string       `json:"error,omitempty"`     // why nothing was done
}

// AlertOutcome is what was done about an alert.
type AlertOutcome string

// The outcomes.
const (
	AlertDrained AlertOutcome = "drained" // firing: the target is drained, now or already
	AlertLifted  AlertOutcome = "lifted"  // resolved: the drain is lifted, now or already
	AlertHeld    AlertOutcome = "held"    // resolved: the drain stays a while longer, the more so the more often this has happened lately, and ends by itself
	AlertIgnored AlertOutcome = "ignored" // it names neither a PoP nor a service, or automation is not enabled
	AlertRefused AlertOutcome = "refused" // a guard rail or a bad target
	AlertFailed  AlertOutcome = "failed"  // this node could not; Alertmanager tries again
)
