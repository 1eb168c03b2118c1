package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"rdma_events/assets/gen"
	"rdma_events/assets/influxdb"
	"rdma_events/internal/telemetry/measure"
)

const assetsAbout = `Writes dashboards for Grafana and alert rules. For InfluxDB it also writes the data
source, the down-sampling and Telegraf's output, for Prometheus the configurations of
Telegraf, Prometheus and Alertmanager.
`

// assetsFlags are the flags of the subcommand assets.
type assetsFlags struct {
	out, engine      string
	labels, database string
	options          gen.Options
}

func (o *assetsFlags) define(stderr io.Writer) *flag.FlagSet {
	o.options = gen.Defaults()
	set := newFlags("assets", stderr)
	set.StringVar(&o.out, "out", "", "the directory to write to; existing files are replaced")
	set.StringVar(&o.engine, "engine", string(gen.InfluxDB), "the database of the metrics: influxdb or prometheus")
	set.StringVar(&o.options.Docs, "docs", "", "URL of a copy of the directory docs, for links in alerts (default no links)")
	set.StringVar(&o.labels, "labels", strings.Join(o.options.Labels, ","), "tags with the location of a host, from the widest to the narrowest")
	set.DurationVar(&o.options.Interval, "interval", o.options.Interval, "interval of Telegraf's agent")
	set.StringVar(&o.options.DataSource, "datasource", "", "UID of Grafana's data source (default rdma-influxdb, or any for Prometheus)")
	set.StringVar(&o.options.Loki, "loki", "", "for Prometheus: UID of a Loki in Grafana that has the events (see loki.conf); default no events")
	set.StringVar(&o.database, "database", "", "InfluxDB database shared with other inputs, such as telegraf (default a separate one, rdma)")
	return set
}

// writeAssets runs the subcommand assets.
func writeAssets(args []string, stderr io.Writer) int {
	o, code := parseAssetsFlags(args, stderr)
	if o == nil {
		return code
	}
	files, err := gen.Files(gen.Engine(o.engine), o.options, measure.All())
	if errors.Is(err, gen.ErrOption) {
		fmt.Fprintln(stderr, "rdma-events assets:", err)
		return exitUsage
	}
	if err == nil {
		err = writeFiles(o.out, files)
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	return exitOK
}

// parseAssetsFlags parses the flags. It returns nil and an exit status if there is nothing to write.
func parseAssetsFlags(args []string, stderr io.Writer) (*assetsFlags, int) {
	var o assetsFlags
	set := o.define(stderr)
	if code, ok := parseFlags(set, args, "name the directory with -out"); !ok {
		return nil, code
	}
	if o.out == "" {
		return nil, reportMisuse(set, "-out is missing: name the directory to write to")
	}
	o.options.Labels = nil
	if o.labels != "" {
		o.options.Labels = strings.Split(o.labels, ",")
	}
	var err error
	if o.options.Place, err = influxdb.Chosen(o.database); err != nil {
		return nil, reportMisuse(set, fmt.Sprintf("read -database: %v", err))
	}
	return &o, exitOK
}

// writeFiles writes files below a directory, and creates missing directories.
func writeFiles(dir string, files []gen.File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make directory of %s: %w", f.Path, err)
		}
		if err := os.WriteFile(path, f.Text, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// explainAlert runs the subcommand explain.
func explainAlert(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return exitAfterWrite(fmt.Fprintln(stdout, strings.Join(gen.RuleIDs(), "\n")))
	}
	text, ok := gen.Explain(args[0])
	if len(args) > 1 || !ok {
		fmt.Fprintf(stderr, "rdma-events explain: want the name of one alert, of these: %s\n", strings.Join(gen.RuleIDs(), ", "))
		return exitUsage
	}
	return exitAfterWrite(io.WriteString(stdout, text))
}
