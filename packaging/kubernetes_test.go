package packaging

import (
	"errors"
	"io"
	"os"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestKubernetes: the manifests are YAML, the pods are on the host's network, without root and with one capability, mounts have volumes, and probes and arguments are commands.
func TestKubernetes(t *testing.T) {
	f, err := os.Open("kubernetes/edgesteer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kinds := map[string]map[string]any{}
	for d := yaml.NewDecoder(f); ; {
		var object map[string]any
		if err := d.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if object["apiVersion"] == nil || at(object, "metadata", "name") == nil {
			t.Errorf("%v has no apiVersion or no name", object["kind"])
		}
		kind, _ := object["kind"].(string)
		kinds[kind] = object
	}
	pod, _ := at(kinds["DaemonSet"], "spec", "template", "spec").(map[string]any)
	if pod == nil || kinds["Namespace"] == nil || kinds["PodDisruptionBudget"] == nil || kinds["ServiceAccount"] == nil {
		t.Fatalf("kinds: %v", kinds)
	}
	if at(pod, "hostNetwork") != true || at(pod, "securityContext", "runAsNonRoot") != true || at(pod, "automountServiceAccountToken") != false {
		t.Error("the pods are not on the host's network, may be root, or have a token")
	}
	volumes := map[any]bool{}
	for _, v := range list(pod["volumes"]) {
		volumes[at(v, "name")] = true
	}
	containers := append(list(pod["initContainers"]), list(pod["containers"])...)
	if len(containers) != 2 {
		t.Errorf("%d containers", len(containers))
	}
	for _, c := range containers {
		security := at(c, "securityContext")
		drop, add := list(at(security, "capabilities", "drop")), list(at(security, "capabilities", "add"))
		if len(drop) != 1 || drop[0] != "ALL" || len(add) != 1 || add[0] != "NET_BIND_SERVICE" ||
			at(security, "readOnlyRootFilesystem") != true || at(security, "allowPrivilegeEscalation") != false {
			t.Errorf("security context %v", security)
		}
		for _, m := range list(at(c, "volumeMounts")) {
			if !volumes[at(m, "name")] {
				t.Errorf("there is no volume for %v", m)
			}
		}
		parses(t, "args", append([]string{"edgesteer"}, texts(at(c, "args"))...))
		for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
			if p := at(c, probe); p != nil {
				parses(t, probe, texts(at(p, "exec", "command")))
			} else if at(c, "name") == "edgesteer" {
				t.Errorf("no %s", probe)
			}
		}
	}
}

// at follows keys into maps; nil where there is nothing.
func at(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func texts(v any) (out []string) {
	for _, item := range list(v) {
		s, _ := item.(string)
		out = append(out, s)
	}
	return out
}
