package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxExposure is the most that `systemd-analyze security` may count against the unit, in tenths of its points from 0 to 10. "OK" begins at 50, and a server that must be reached from
// everywhere cannot go below some 15.
const maxExposure = "20"

// TestUnit: systemd takes every line of the unit, finds little to reproach, and runs commands that exist.
func TestUnit(t *testing.T) {
	text := read(t, "systemd/edgesteer.service")
	for _, m := range regexp.MustCompile(`(?m)^Exec\w+=(.+)$`).FindAllStringSubmatch(text, -1) {
		parses(t, m[0], strings.Fields(m[1]))
	}
	for _, want := range []string{"User=edgesteer", "AmbientCapabilities=CAP_NET_BIND_SERVICE", "NoNewPrivileges=yes", "ProtectSystem=strict"} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	analyze := tool(t, "systemd-analyze")
	unit := filepath.Join(t.TempDir(), "edgesteer.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(text, "/usr/bin/edgesteer", binary(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := command(t, ".", analyze, "verify", "--man=no", unit); out != "" { // of unknown keys it only warns
		t.Error(out)
	}
	command(t, ".", analyze, "security", "--offline=true", "--threshold="+maxExposure, "--no-pager", unit)
}
