//go:build guest

package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Flaps describes how a link flaps: Count times, down for Down, one flap every Period.
type Flaps struct {
	Count        int
	Down, Period time.Duration
}

// LinkChange is one change of a link's state, made between two moments. Before and After are readings of
// CLOCK_MONOTONIC in ns, Wall is the time at Before.
type LinkChange struct {
	Up            bool
	Before, After int64
	Wall          time.Time
}

// FlapLink flaps a netdev's link. After the last flap it returns the exact times of all changes.
func FlapLink(ctx context.Context, netdev string, f Flaps) ([]LinkChange, error) {
	cmd := exec.CommandContext(ctx, os.Getenv("LAB_LINKFLAP"), netdev, strconv.Itoa(f.Count),
		strconv.FormatInt(f.Down.Microseconds(), 10), strconv.FormatInt(f.Period.Microseconds(), 10))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("flap link %s: %w: %s", netdev, err, strings.TrimSpace(stderr.String()))
	}
	changes := make([]LinkChange, 0, 2*f.Count)
	for line := range strings.Lines(string(out)) {
		c, err := parseLinkChange(line)
		if err != nil {
			return nil, fmt.Errorf("flap link %s: %w", netdev, err)
		}
		changes = append(changes, c)
	}
	return changes, nil
}

func parseLinkChange(line string) (LinkChange, error) {
	var state string
	var before, after, wall int64
	if _, err := fmt.Sscan(line, &state, &before, &after, &wall); err != nil {
		return LinkChange{}, fmt.Errorf("parse change %q: %w", strings.TrimSpace(line), err)
	}
	return LinkChange{Up: state == "up", Before: before, After: after, Wall: time.Unix(0, wall)}, nil
}
