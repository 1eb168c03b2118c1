package prom

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// Promtool is the path of the program promtool.
type Promtool string

// Blocks makes blocks of a file in the format OpenMetrics for a server that does not
// run. span is how long a block may last; 0 is two hours, as of a server's own
// first blocks.
func (p Promtool) Blocks(ctx context.Context, file, dir string, span time.Duration) error {
	args := []string{"tsdb", "create-blocks-from", "openmetrics", "--quiet"}
	if span > 0 {
		args = append(args, "--max-block-duration="+span.String())
	}
	return p.run(ctx, append(args, file, blocksDir(dir))...)
}

// Record evaluates the recording rules of a file on a running server, from one time
// to another, and makes blocks of the result. The server sees them once it has
// been started again.
func (p Promtool) Record(ctx context.Context, s *Server, rules, dir string, from, to time.Time) error {
	return p.run(ctx, "tsdb", "create-blocks-from", "rules", "--url="+s.URL(), "--start="+unixSeconds(from), "--end="+unixSeconds(to),
		"--output-dir="+blocksDir(dir), rules)
}

// TestRules runs a file of unit tests of rules.
func (p Promtool) TestRules(ctx context.Context, file string) error {
	return p.run(ctx, "test", "rules", file)
}

func (p Promtool) run(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, string(p), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promtool %v: %w: %s", args, err, out[max(0, len(out)-8000):])
	}
	return nil
}
