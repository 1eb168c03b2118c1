// Command scale fills an InfluxDB and a Prometheus with the points of many hosts and
// measures the Overview dashboard and the rules on them. `make scale` starts it from the project's root. If it was
// stopped, the next start continues.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rdma_events/tests/scale"
)

func main() {
	c := scale.Config{Root: ".", Out: os.Stdout, Now: time.Now, Cold: 10 * time.Second}
	flag.StringVar(&c.Plan.Dir, "dir", "build/scale", "directory of the database")
	flag.IntVar(&c.Plan.Hosts, "hosts", 1000, "hosts")
	flag.IntVar(&c.Plan.Devices, "devices", 8, "devices of a host")
	flag.DurationVar(&c.Plan.Interval, "interval", 10*time.Second, "Telegraf's interval")
	flag.BoolVar(&c.Plan.Exact, "exact", false, "stamp raw points with whole intervals")
	flag.Int64Var(&c.Plan.Seed, "seed", 1, "of what happens")
	flag.DurationVar(&c.For, "for", 0, "how long to fill at most (default until it is full)")
	flag.BoolVar(&c.Measure, "measure", false, "measure even when it is not full")
	flag.StringVar(&c.Only, "only", "", "influxdb or prometheus (default both)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := scale.Run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}
