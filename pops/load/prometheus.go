package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// popLabel is the label of a sample that names the PoP.
const popLabel = "pop"

// ask makes an instant query: one sample for each PoP.
func (s *Store) ask(ctx context.Context, src *source) (map[string]Sample, error) {
	vector, err := instant(ctx, s.config.Transport, src.prometheus, src.token, src.query)
	if err != nil {
		return nil, err
	}
	now, out := s.now(), make(map[string]Sample, len(vector))
	for _, sample := range vector {
		pop := string(sample.Metric[popLabel])
		if pop == "" {
			return nil, fmt.Errorf("a sample has no label %s", popLabel)
		}
		if _, twice := out[pop]; twice {
			return nil, fmt.Errorf("two samples of %s: sum by (%s) makes one of them", pop, popLabel)
		}
		out[pop] = Sample{Value: float64(sample.Value), At: now, Node: s.config.Node}
	}
	return out, nil
}

// Gives asks Prometheus whether a query gives anything now, and what its first sample is; "" if it gives nothing.
func (s *Store) Gives(ctx context.Context, query string) (string, error) {
	s.mu.Lock()
	p := s.plan
	s.mu.Unlock()
	if p.prometheus == "" {
		return "", errors.New("no Prometheus to ask: set url in [prometheus]")
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	vector, err := instant(ctx, s.config.Transport, p.prometheus, p.token, query)
	if err != nil || len(vector) == 0 {
		return "", err
	}
	return fmt.Sprintf("%s is %s", vector[0].Metric, vector[0].Value), nil
}

// instant asks Prometheus for a vector as it is now.
func instant(ctx context.Context, transport http.RoundTripper, address, tokenFile, query string) (model.Vector, error) {
	if tokenFile != "" {
		b, err := os.ReadFile(filepath.Clean(tokenFile)) // each time: it may be replaced
		if err != nil {
			return nil, fmt.Errorf("reading the token: %w", err)
		}
		transport = bearer{transport, strings.TrimSpace(string(b))}
	}
	c, err := promapi.NewClient(promapi.Config{Address: address, RoundTripper: transport})
	if err != nil {
		return nil, err
	}
	value, _, _, err := promv1.NewAPI(c).Query(ctx, query, time.Time{})
	if err != nil {
		if p, ok := errors.AsType[*promv1.Error](err); ok {
			return nil, fmt.Errorf("prometheus: %s", p.Msg)
		}
		return nil, plain(err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("the query gives a %s, want a vector", value.Type())
	}
	return vector, nil
}

// bearer adds a token to requests.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}
