package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	board "rdma_events/assets/grafana"
	"rdma_events/tests/grafana"
	"rdma_events/tests/prom"
)

// groupShare is the part of its interval that a group of rules may take.
const groupShare = 5

// group is a group of rules of a file for Prometheus.
type group struct {
	Name     string
	Interval string
	Rules    []struct{ Alert, Record, Expr string }
}

func (p *prometheus) measure(ctx context.Context) (err error) {
	s, err := prom.Open(ctx, p.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	count, err := s.Query(ctx, `count({__name__=~"rdma_.+"})`, p.end)
	if err != nil {
		return err
	}
	if len(count) != 1 {
		return fmt.Errorf("count of series: %d answers", len(count))
	}
	bytes, err := dirSize(filepath.Join(p.dir, "data"))
	if err != nil {
		return err
	}
	p.say("\nPrometheus, %d hosts with %d devices: %.0f series, %.1f MB of blocks\n", p.plan.Hosts, p.plan.Devices, float64(count[0].Value), float64(bytes)/1e6)
	worst, err := p.askOverview(ctx, s)
	if err != nil {
		return err
	}
	late, err := p.askGroups(ctx, s)
	if err != nil {
		return err
	}
	p.say("memory of prometheus: %d MB\n", residentMemory(s.PID())>>20)
	switch {
	case worst > Limit:
		return fmt.Errorf("%w: %.2f s in Prometheus, want %v", ErrSlow, worst.Seconds(), Limit)
	case late != "":
		return fmt.Errorf("%w: the rules of %s in Prometheus take more than a fifth of their interval", ErrSlow, late)
	}
	return nil
}

// askOverview runs every query of the Overview dashboard for the hour, and returns the time of the slowest.
func (p *prometheus) askOverview(ctx context.Context, s *prom.Server) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(p.root, "assets/prometheus/dashboards/overview.json"))
	if err != nil {
		return 0, err
	}
	d, err := board.ParseDashboard(text)
	if err != nil {
		return 0, err
	}
	var all []answer
	for _, panel := range d.All() {
		r, step, err := grafana.View(&panel, grafana.Range{From: p.end.Add(-time.Hour), To: p.end})
		if err != nil {
			return 0, err
		}
		for _, target := range panel.Targets {
			expr := grafana.PromQL(target.Expr, d.Templating.List, nil, r, step, scrape)
			one, err := timeQuery(func() (int, error) {
				if target.Instant {
					found, err := s.Query(ctx, expr, r.To)
					return len(found), err
				}
				found, err := s.QueryRange(ctx, expr, r.From.Truncate(step), r.To, step)
				return len(found), err
			})
			if err != nil {
				return 0, fmt.Errorf("%q: %w", panel.Title, err)
			}
			one.title, one.ref = panel.Title, target.RefID
			all = append(all, one)
		}
	}
	p.say("\nOverview of Prometheus, an hour, slowest %.2f s, %d queries\n\n%s", slowestQuery(all).Seconds(), len(all), answerTable(all))
	return slowestQuery(all), nil
}

// askGroups evaluates each group of rules and returns the name of one that takes too long, or "".
func (p *prometheus) askGroups(ctx context.Context, s *prom.Server) (late string, err error) {
	text, err := os.ReadFile(filepath.Join(p.root, "assets/prometheus/rules.yml"))
	if err != nil {
		return "", err
	}
	var file struct{ Groups []group }
	if err := yaml.Unmarshal(text, &file); err != nil {
		return "", fmt.Errorf("read rules.yml: %w", err)
	}
	for _, g := range file.Groups {
		interval := scrape // evaluation_interval of the shipped prometheus.yml
		if g.Interval != "" {
			d, err := model.ParseDuration(g.Interval)
			if err != nil {
				return "", fmt.Errorf("interval of %s: %w", g.Name, err)
			}
			interval = time.Duration(d)
		}
		var all []answer
		for _, r := range g.Rules {
			one, err := timeQuery(func() (int, error) {
				found, err := s.Query(ctx, r.Expr, p.end)
				return len(found), err
			})
			if err != nil {
				return "", fmt.Errorf("%s%s: %w", r.Alert, r.Record, err)
			}
			one.title = r.Alert + r.Record
			all = append(all, one)
		}
		if totalTime(all) > interval/groupShare {
			late = g.Name
		}
		p.say("\nRules of %s, every %v, together %.2f s\n\n%s\n", g.Name, interval, totalTime(all).Seconds(), answerTable(all))
	}
	return late, nil
}

// timeQuery runs a query once, then again, and returns the times.
func timeQuery(query func() (series int, err error)) (answer, error) {
	var a answer
	for i := range 1 + repeats {
		began := time.Now()
		series, err := query()
		if err != nil {
			return a, err
		}
		took := time.Since(began)
		if i == 0 {
			a.first, a.series = took, series
		} else {
			a.then = max(a.then, took)
		}
	}
	return a, nil
}
