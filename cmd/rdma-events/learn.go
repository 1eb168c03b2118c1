package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"rdma_events/internal/telemetry/measure"
)

// learnExpected runs check -learn. Without a configuration it opens the devices that the default one selects.
func learnExpected(config string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := loadConfig(config)
	var points []measure.Point
	if err == nil {
		c.Expect, c.Expected = nil, nil // do not require what the configuration expects so far
		points, err = openDevicesOnce(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	l := learnFrom(points)
	code := exitAfterWrite(io.WriteString(stdout, l.format(c.ExpectedDown)))
	for _, why := range l.remarks {
		fmt.Fprintln(stderr, "W!", why)
		code = max(code, exitWarning)
	}
	return code
}

// learned contains the devices and ports of a host.
type learned struct {
	devices map[float64][]string // open devices, by the lowest rate of their active ports; 0: no active port
	down    []string             // ports that are not active, as in "mlx5_0:2"
	remarks []string             // which devices are left out, and why, or that there is none
}

// learnFrom returns what the points of all devices and ports show. Soft devices are left out, because an administrator
// creates and deletes them.
func learnFrom(points []measure.Point) learned {
	l := learned{devices: map[float64][]string{}}
	rates := map[string]float64{}
	for p := range measure.OfType[*measure.Port](points) {
		up, known := p.Up()
		switch {
		case known && !up:
			l.down = append(l.down, fmt.Sprintf("%s:%d", p.Device, p.Port))
		case known && p.Attr.RateGbps > 0:
			rates[p.Device] = min(cmp.Or(rates[p.Device], p.Attr.RateGbps), p.Attr.RateGbps)
		}
	}
	for d := range measure.OfType[*measure.Device](points) {
		switch {
		case !d.Present:
		case !d.Open:
			l.remarks = append(l.remarks, fmt.Sprintf("%s is left out: it is not watched (%s)", d.Device, d.Reason))
		case d.Attr.PCIAddress == "":
			l.down = slices.DeleteFunc(l.down, func(port string) bool { return strings.HasPrefix(port, d.Device+":") })
			l.remarks = append(l.remarks, d.Device+" is left out: it is a soft device")
		default:
			rate := rates[d.Device]
			l.devices[rate] = append(l.devices[rate], d.Device)
		}
	}
	if len(l.devices) == 0 && len(l.remarks) == 0 {
		l.remarks = []string{"this host has no RDMA device that the configuration selects, so there is nothing to expect; `rdma-events doctor` says why"}
	}
	return l
}

// format returns the sections. If ports are down that expectedDown does not contain, the option expected_down comes
// first.
func (l *learned) format(expectedDown []string) string {
	var b strings.Builder
	all := slices.Clone(expectedDown)
	for _, port := range l.down {
		if !slices.Contains(all, port) {
			all = append(all, port)
		}
	}
	if len(all) > len(expectedDown) {
		fmt.Fprintf(&b, "  ## These ports are down now. Take out those that should be active, and keep the line above all sections.\n"+
			"  expected_down = %s\n\n", quotedList(all))
	}
	for _, rate := range slices.Backward(slices.Sorted(maps.Keys(l.devices))) {
		names := l.devices[rate]
		fmt.Fprintf(&b, "  [[inputs.rdma_events.expected]]\n    devices = %s\n    count = %d\n", quotedList(globsFor(names)), len(names))
		if rate > 0 {
			fmt.Fprintf(&b, "    rate_gbps = %s\n", strconv.FormatFloat(rate, 'f', -1, 64))
		}
	}
	return b.String()
}

func quotedList(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// minRun is the minimum number of consecutive names that become one glob.
const minRun = 3

// globsFor returns globs that match exactly the names: mlx5_[0-7] for consecutive names that differ in their last
// digit. Other names stay as they are.
func globsFor(names []string) []string {
	rows := map[string][]int{} // last digits by the text before them
	var order []string
	for _, name := range names {
		stem, digit := name, -1
		if n := len(name); n > 1 && name[n-1] >= '0' && name[n-1] <= '9' {
			stem, digit = name[:n-1], int(name[n-1]-'0')
		}
		if rows[stem] == nil {
			order = append(order, stem)
		}
		rows[stem] = append(rows[stem], digit)
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	var all []string
	for _, stem := range order {
		digits := rows[stem]
		slices.Sort(digits)
		for len(digits) > 0 {
			n := 1
			for n < len(digits) && digits[n] == digits[n-1]+1 && digits[0] >= 0 {
				n++
			}
			all = append(all, namePattern(stem, digits[:n])...)
			digits = digits[n:]
		}
	}
	return all
}

// namePattern returns the glob for consecutive names, or the names if they are few.
func namePattern(stem string, digits []int) []string {
	if len(digits) >= minRun {
		return []string{fmt.Sprintf("%s[%d-%d]", stem, digits[0], digits[len(digits)-1])}
	}
	var all []string
	for _, digit := range digits {
		name := stem
		if digit >= 0 {
			name += strconv.Itoa(digit)
		}
		all = append(all, name)
	}
	return all
}
