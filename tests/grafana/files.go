package grafana

import (
	"fmt"
	"os"
	"path/filepath"

	"rdma_events/assets/grafana"
)

// Dashboards reads the dashboards of assets/dashboards below root, by UID.
func Dashboards(root string) (map[string]*grafana.Dashboard, error) {
	paths, err := filepath.Glob(filepath.Join(root, "assets/dashboards/*.json"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("find dashboards in %s: none (%w)", root, err)
	}
	all := map[string]*grafana.Dashboard{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		d, err := grafana.ParseDashboard(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		all[d.UID] = d
	}
	return all, nil
}

// RulesFile is where the alert rules are, below the repository's root.
const RulesFile = "assets/alerts/rdma_events.yaml"

// Rules reads the alert rules below root.
func Rules(root string) (*grafana.RuleFile, error) {
	text, err := os.ReadFile(filepath.Join(root, RulesFile))
	if err != nil {
		return nil, err
	}
	return grafana.ParseRules(text)
}
