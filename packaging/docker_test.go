package packaging

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction is one of a Dockerfile, with continued lines joined.
type instruction struct{ name, args string }

func dockerfile(t *testing.T) []instruction {
	t.Helper()
	var out []instruction
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(read(t, "docker/Dockerfile"), "")
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if name, args, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			out = append(out, instruction{name, strings.TrimSpace(args)})
		}
	}
	return out
}

// last gives the arguments of the last instruction of a name: that counts in the image.
func last(t *testing.T, file []instruction, name string) string {
	t.Helper()
	for _, in := range slices.Backward(file) {
		if in.name == name {
			return in.args
		}
	}
	t.Fatalf("the Dockerfile has no %s", name)
	return ""
}

func words(t *testing.T, text string) (list []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%s: %v (an image without a shell needs the exec form)", text, err)
	}
	return list
}

// healthCheck is the command by which the image's health is judged.
func healthCheck(t *testing.T) []string {
	t.Helper()
	_, cmd, ok := strings.Cut(last(t, dockerfile(t), "HEALTHCHECK"), "CMD ")
	if !ok {
		t.Fatal("HEALTHCHECK has no CMD")
	}
	return words(t, cmd)
}

// TestDockerfile: the image has no base, no root and no shell, what it copies is there, and its commands are commands.
func TestDockerfile(t *testing.T) {
	file := dockerfile(t)
	if base := last(t, file, "FROM"); base != "scratch" {
		t.Errorf("the image is made from %s", base)
	}
	if user := last(t, file, "USER"); !regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`).MatchString(user) {
		t.Errorf("user %s: Kubernetes knows only numbers not to be root", user)
	}
	parses(t, "HEALTHCHECK", healthCheck(t))
	parses(t, "ENTRYPOINT and CMD", append(words(t, last(t, file, "ENTRYPOINT")), words(t, last(t, file, "CMD"))...))
	for _, in := range file {
		if in.name != "COPY" || strings.HasPrefix(in.args, "--from") {
			continue
		}
		sources := strings.Fields(in.args)
		for _, source := range sources[:len(sources)-1] {
			if _, err := os.Stat("../" + source); err != nil {
				t.Error(err)
			}
		}
	}
}
