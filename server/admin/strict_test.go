package admin

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgesteer/edgesteer/server/api"
)

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		body, field, detail, hint string // of the problem; detail "": none
	}{
		{`{"target":"fra","by":37,"for":"8h","steps":[1,100],"start":"2026-01-02T03:04:05Z","reason":"r"}`, "", "", ""},
		{`{"by":null}`, "", "", ""},
		{` {} `, "", "", ""},
		{`{"over":"forever"}`, "", "", ""},
		{``, "", "the body is empty", "send a JSON object"},
		{`  `, "", "the body is empty", ""},
		{`[]`, "", "not a JSON object", ""},
		{`"x"`, "", "not a JSON object", ""},
		{`null`, "", "not a JSON object", ""},
		{`{`, "", "the JSON ends too early", ""},
		{`{"target"`, "", "the JSON ends too early", ""},
		{`{"target":"fra"`, "", "the JSON ends too early", ""},
		{`{"target":"fra",}`, "", "this is not JSON", ""},
		{`{"target":"fra"} x`, "", "something follows", ""},
		{`{"target":"fra"}{}`, "", "something follows", ""},
		{`{target:"fra"}`, "", "this is not JSON", ""},
		{"{\"target\":\"\xff\"}", "", "not UTF-8", ""},
		{`{"taget":"fra"}`, "taget", "unknown field", `did you mean "target"?`},
		{`{"Target":"fra"}`, "Target", "unknown field", `did you mean "target"?`},
		{`{"reason":"r","Reason":"s"}`, "Reason", "unknown field", ""},
		{`{"key":"k"}`, "key", "unknown field", ""},
		{`{"Order":{}}`, "Order", "unknown field", ""},
		{`{"target":"fra","target":"dub"}`, "target", "given twice", ""},
		{`{"target":7}`, "target", "want text", ""},
		{`{"by":"37%"}`, "by", "want a number", ""},
		{`{"dry_run":"yes"}`, "dry_run", "want true or false", ""},
		{`{"steps":[1,"2"]}`, "steps[1]", "want a number", ""},
		{`{"steps":5}`, "steps", "want a list", ""},
		{`{"for":"8 hours"}`, "for", `"8 hours" is not a length of time such as "10m", "8h" or "forever"`, ""},
		{`{"for":"-8h"}`, "for", "is below zero", ""},
		{`{"start":"tomorrow"}`, "start", "cannot parse", ""},
		{`{"override":[{"x":1}]}`, "override[0]", "want text", ""},
	} {
		r := new(api.DrainRequest)
		p := decode([]byte(test.body), r)
		if test.detail == "" {
			if p != nil {
				t.Errorf("%s: %+v", test.body, p)
			}
			continue
		}
		if p == nil || p.Field != test.field || !strings.Contains(p.Detail, test.detail) || !strings.Contains(p.Hint, test.hint) {
			t.Errorf("%s: %+v, want %s: %q (hint: %s)", test.body, p, test.field, test.detail, test.hint)
		}
	}
}

// FuzzDecode compares with the plain reader of the standard library: what is accepted here is accepted there, as the same value; and what is written is read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"target":"fra","by":37,"for":"8h","over":"10m","steps":[1,100],"start":"2026-01-02T03:04:05Z","restore":"1h","outage":"x","evidence":["a"],"reason":"r","ticket":"t","author":"a","dry_run":true,"override":["half"],"wait":"5s"}`,
		`{"target":"a","target":"b"}`, `{"Target":"a"}`, `{"by":1e400}`, `{"by":null}`, `[[[[`, `{"override":[[]]}`, `{"start":null}`, `{"for":null}`, `{"target":"\ud800"}`, `{}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range []any{new(api.DrainRequest), new(api.ShiftRequest), new(api.PinRequest), new(api.RenewRequest), new(api.RestoreRequest)} {
			p := decode(data, v)
			if p != nil {
				if p.Status < 400 || p.Status > 499 || p.Title == "" || p.Detail == "" {
					t.Errorf("problem %+v", p)
				}
				continue
			}
			plain := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			d := json.NewDecoder(bytes.NewReader(data))
			d.DisallowUnknownFields()
			if err := d.Decode(plain); err != nil {
				t.Fatalf("%T: accepted, but: %v", v, err)
			}
			if diff := cmp.Diff(plain, v); diff != "" {
				t.Fatalf("%T:\n%s", v, diff)
			}
			again, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if p := decode(again, reflect.New(reflect.TypeOf(v).Elem()).Interface()); p != nil {
				t.Fatalf("%T: written as %s, which is not accepted: %+v", v, again, p)
			}
		}
	})
}

// FuzzAlerts checks that nothing a webhook may be sent does harm.
func FuzzAlerts(f *testing.F) {
	f.Add([]byte(firing))
	f.Add([]byte(`{"version":"4","alerts":[{"labels":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var g api.AlertGroup
		if p := lenient(data, &g); p != nil {
			return
		}
		for i := range g.Alerts {
			if r := alertReason(&g.Alerts[i]); len(r) > maxReason || strings.ContainsFunc(r, func(r rune) bool { return r < ' ' }) {
				t.Errorf("reason %q", r)
			}
		}
	})
}
