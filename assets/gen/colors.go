package gen

import (
	"slices"
	"strings"

	"rdma_events/assets/grafana"
	"rdma_events/internal/fabric/verdict"
)

// meaning is a series whose colour is the same on every panel.
type meaning struct {
	name  string // how its name begins
	color string
}

// meanings are the colours of series: red is broken now, orange is degraded, yellow on the way, green good, blue
// information, grey unknown or absent, purple the plugin itself. Devices, ports, vectors, calls and applications have colours of a palette.
var meanings = []meaning{
	{"port_err", "red"},
	{"port_active", "green"},
	{"device_fatal", "dark-red"},
	{"gid_change", "yellow"},
	{"sm_change", "blue"},
	{"client_reregister", "light-blue"},
	{"lid_change", "dark-blue"},
	{"pkey_change", "semi-dark-blue"},
	{"device_speed_change", "light-yellow"},
	{"cq_err", "semi-dark-red"},
	{"qp_fatal", "semi-dark-red"},
	{"srq_err", "light-red"},
	{"wq_fatal", "light-red"},
	{"qp_req_err", "semi-dark-orange"},
	{"qp_access_err", "dark-orange"},
	{"path_mig_err", "light-orange"},
	{"path_mig", "super-light-blue"},
	{"comm_est", "super-light-blue"},
	{"sq_drained", "super-light-blue"},
	{"srq_limit_reached", "super-light-yellow"},
	{"qp_last_wqe_reached", "super-light-blue"},
	{"unknown_", grey},
	{"lost completions", "red"},
	{"lost events", "orange"},
	{"errors", "light-orange"},
	{"flaps", "orange"},
	{"missed", "yellow"},
	{"phantom", "blue"},
	{"late", "yellow"},
	{"spurious", "blue"},
	{"successes", "green"},
	{"port down", "red"},
	{"device missing", "dark-red"},
	{"device not watched", "orange"},
	{"command stuck", "semi-dark-red"},
	{"to down", "red"},
	{"to active", "green"},
	{"to init", "orange"},
	{"to armed", "yellow"},
	{"to absent", grey},
	{"to nop", grey},
	{"to active_defer", "light-yellow"},
	{"changes", "blue"},
	{"reporting", "green"},
	{"drift", "red"},
	{"unacknowledged", "yellow"},
	{"released", "orange"},
	{"restarts", "purple"},
	{"stuck", "red"},
	{"merged", "light-purple"},
	{"dropped", "red"},
	{"skipped", "purple"},
	{"evidence merged", "super-light-purple"},
	{"recorded", "light-purple"},
	{"failed writes", "orange"},
	{"lost records", "red"},
	{"gaps", "orange"},
	{"map full", "yellow"},
	{"tracer", "purple"},
	{"plugin", "purple"},
	{"workers", "light-purple"},
	{"worst", "orange"},
	{"mean", "blue"},
	{"p50", "green"},
	{"p90", "blue"},
	{"p99", "yellow"},
	{"max", "orange"},
	{"hold max", "blue"},
	{"hold mean", "light-blue"},
	{"ack max", "dark-blue"},
	{"ack mean", "semi-dark-blue"},
	{"there", "orange"},
	{"back", "dark-orange"},
	{"busy", "blue"},
	{"not known", grey},
	{"probes sent", "blue"},
	{"writes posted", "light-blue"},
	{"echoes sent", "super-light-blue"},
	{"refused", "orange"},
	{"foreign", "yellow"},
	{"dry", "light-orange"},
	{"down in the interval", "red"},
	{past, grey},
	{"best", "blue"},
}

// saidColors returns the colours of verdicts about pairs and of the reasons why two hosts have not met. A word that is both has one.
func saidColors() []meaning {
	var all []meaning
	add := func(word, color string) {
		if color == "grey" {
			color = grey
		}
		if !slices.ContainsFunc(all, func(m meaning) bool { return m.name == word }) {
			all = append(all, meaning{word, color})
		}
	}
	for _, r := range verdict.Verdicts() {
		add(string(r.Verdict), r.Colour)
	}
	for _, r := range verdict.Reasons() {
		add(string(r.Reason), r.Colour)
	}
	return all
}

// past is a dashed line, above which the rule wake-slow fires.
const past = "5 times its past"

// grey is not one of Grafana's named colours.
const grey = "#8e8e8e"

// colorOverrides returns the overrides that colour the series of a panel's queries. If a series is named by a tag, such as the type of an
// event, it returns the overrides for all such names.
func colorOverrides(queries []query) []grafana.Override {
	var all []grafana.Override
	its := slices.DeleteFunc(slices.Clone(meanings), func(m meaning) bool {
		return !slices.ContainsFunc(queries, func(q query) bool { return m.of(q.alias) })
	})
	for _, m := range saidColors() {
		if slices.ContainsFunc(queries, func(q query) bool { return q.alias == m.name }) {
			its = append(its, m)
		}
	}
	for _, m := range its {
		all = append(all, grafana.Override{
			Matcher:    grafana.Matcher{ID: "byRegexp", Options: "/^" + m.name + `(?![a-z_])/`},
			Properties: []grafana.Property{{ID: "color", Value: map[string]any{"mode": "fixed", "fixedColor": m.color}}},
		})
		if m.name == past {
			o := &all[len(all)-1]
			o.Properties = append(o.Properties, grafana.Property{ID: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{10, 10}}},
				grafana.Property{ID: "custom.fillOpacity", Value: 0})
		}
	}
	return all
}

// of reports whether a series of a query can have that name.
func (m meaning) of(alias string) bool {
	switch alias {
	case "$tag_event":
		return strings.Contains(m.name, "_")
	case "to $tag_state_to":
		return strings.HasPrefix(m.name, "to ")
	case "$col":
		return slices.Contains([]string{"p50", "p90", "p99", "max", "hold max", "hold mean", "ack max", "ack mean"}, m.name)
	}
	return strings.HasPrefix(alias, m.name)
}
