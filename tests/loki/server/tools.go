//go:build tools

// Package server pins the version of Loki that the test of the dashboards' log queries runs. It is a module of its own, so that
// the plugin's module does not depend on it. Loki's own go.mod replaces its library push by a directory; this one names its
// version instead.
package server

import _ "github.com/grafana/loki/v3/cmd/loki"
