package preview

import (
	"context"
	_ "embed" // for the scenario
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/png" // decodes the images that Chromium writes
	"os"
	"os/exec"
	"path/filepath"
	"time"

	assets "rdma_events/assets/grafana"
	"rdma_events/tests/grafana"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

// ErrBlank is wrapped by the error of Draw if the page stayed empty.
var ErrBlank = errors.New("the page shows nothing")

const (
	database = "telegraf"
	interval = 10 * time.Second
	before   = 5 * time.Minute // how long a history begins before the range that is shown
	caption  = "Drawn outside Grafana, from simulated data. Time series and numbers are drawn by Grafana's components (@grafana/ui); tables, " +
		"timelines and the list of alerts are drawn by this project in Grafana's colours, from the answers to the panels' own queries and rules."
	head = 100 // pixels above the first panel
)

// eventful is an hour in which a device has one fault after the other.
//
//go:embed eventful.toml
var eventful string

// Config has the directories that Draw uses.
type Config struct {
	Root string // of the repository, with programs in build/tools and the page in build/preview
	Out  string // the directory of the images
}

// subject is a dashboard with the history that it shows.
type subject struct {
	file, uid string
	span      time.Duration
	past      []history.Host // for some hours before the history, from another start of the plugin
	hosts     []history.Host
	choice    grafana.Choice
}

func subjects() []subject {
	const hour = time.Hour
	bad := history.Host{Name: "node0001", Profile: "fleet8", Timeline: eventful, Seed: 1}
	well := bad
	well.Timeline = "[[event]]\nat = \"9m\"\ntype = \"gid_change\"\n"
	choice := grafana.Choice{"policy": {"autogen"}, "host": {bad.Name}, "device": {"sim0"}}
	return []subject{
		{file: "overview", uid: "rdma-events-fleet", span: hour, hosts: fleetHosts(), choice: grafana.Choice{"policy": {"autogen"}}},
		{file: "host", uid: "rdma-events-host", span: hour, hosts: []history.Host{bad}, choice: choice},
		{
			file: "device", uid: "rdma-events-device", span: hour, past: []history.Host{well}, hosts: []history.Host{bad}, choice: choice,
		},
		{
			file: "applications", uid: "rdma-events-applications", span: hour, hosts: applicationHosts(),
			choice: grafana.Choice{"policy": {"autogen"}},
		},
	}
}

// historyEnd returns the time at which the histories end. It is always the same, so that
// equal dashboards give equal images, and no tick is at the end of an axis.
func historyEnd() time.Time { return time.Date(2026, 1, 15, 11, 57, 0, 0, time.UTC) }

// Draw writes <dashboard>-dark.png and -light.png into Out. It blocks while
// InfluxDB and Chromium run, and stops both when ctx ends. The error wraps ErrBlank
// if a page stayed empty.
func Draw(ctx context.Context, c Config) error {
	boards, err := grafana.Dashboards(c.Root)
	if err != nil {
		return err
	}
	for _, s := range subjects() {
		board := boards[s.uid]
		if board == nil {
			return fmt.Errorf("no dashboard %s below %s", s.uid, c.Root)
		}
		p, err := c.picture(ctx, &s, board)
		if err != nil {
			return err
		}
		if err := c.draw(ctx, s.file, p); err != nil {
			return err
		}
	}
	return nil
}

// picture fills a database with a subject's history and asks it all that its dashboard asks.
func (c *Config) picture(ctx context.Context, s *subject, board *assets.Dashboard) (*picture, error) {
	rules, err := grafana.Rules(c.Root)
	if err != nil {
		return nil, err
	}
	shown := grafana.Range{From: historyEnd().Add(-s.span), To: historyEnd()}
	p := &picture{Title: board.Title, Caption: caption, Head: head, From: shown.From.UnixMilli(), To: shown.To.UnixMilli()}
	err = c.withDatabase(ctx, s, func(db *influx.Server) error {
		p.Panels, err = dashboardData(ctx, grafana.Source{Server: db, Database: database}, board, rules, s.choice, shown)
		return err
	})
	return p, err
}

// withDatabase runs do on a database with a subject's history.
func (c *Config) withDatabase(ctx context.Context, s *subject, do func(*influx.Server) error) (err error) {
	dir, err := os.MkdirTemp("", "rdma_events-preview-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := influx.Open(ctx, influx.Config{Program: filepath.Join(c.Root, "build/tools/influxd"), Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.CreateDatabase(ctx, database); err != nil {
		return err
	}
	w := db.NewWriter(ctx, database)
	start := historyEnd().Add(-s.span - before)
	for _, h := range []history.Config{
		{Start: start.Add(-5 * time.Hour), End: start, Hosts: s.past},
		{Start: start, End: historyEnd(), Hosts: s.hosts},
	} {
		h.Interval = interval
		if err := h.Write(ctx, w); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return do(db)
}

const page = `<!doctype html>
<meta charset="utf-8">
<style>body { margin: 0 }</style>
<link rel="stylesheet" href="page.css">
<div id="page"></div>
<script src="data.js"></script>
<script src="page.js"></script>
`

// draw makes Chromium write an image of the page in each of the two themes.
func (c *Config) draw(ctx context.Context, file string, p *picture) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode picture: %w", err)
	}
	dir := filepath.Join(c.Root, "build/preview")
	script := append([]byte("window.picture = "), text...)
	if err := os.WriteFile(filepath.Join(dir, "data.js"), script, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "page.html"), []byte(page), 0o644); err != nil {
		return err
	}
	for _, theme := range []string{"dark", "light"} {
		out, err := filepath.Abs(filepath.Join(c.Out, file+"-"+theme+".png"))
		if err != nil {
			return err
		}
		if err := takeScreenshot(ctx, dir, theme, out, gridRows(p.Panels)); err != nil {
			return err
		}
	}
	return nil
}

// takeScreenshot runs Chromium without a network and with its own profile.
func takeScreenshot(ctx context.Context, dir, theme, out string, rows int) error {
	address, err := filepath.Abs(filepath.Join(dir, "page.html"))
	if err != nil {
		return err
	}
	profile, err := os.MkdirTemp("", "rdma_events-chromium-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(profile)
	const panelWidth = 1432
	cmd := exec.CommandContext(ctx, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir="+profile,
		fmt.Sprintf("--window-size=%d,%d", panelWidth, head+rows*gridRow+gridGap), "--virtual-time-budget=10000",
		"--screenshot="+out, "file://"+address+"#"+theme)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run chromium: %w: %s", err, text)
	}
	return notBlank(out)
}

// notBlank returns an error if an image shows an empty page. An image with lines
// and letters has many colours.
func notBlank(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	if err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	colors := map[[3]uint32]bool{}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y += 3 {
		for x := b.Min.X; x < b.Max.X; x += 3 {
			r, g, b, _ := img.At(x, y).RGBA()
			colors[[3]uint32{r, g, b}] = true
		}
	}
	if len(colors) < 100 {
		return fmt.Errorf("%s: %w: %d colours", path, ErrBlank, len(colors))
	}
	return nil
}
