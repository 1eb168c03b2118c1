//go:build linux && cgo

package main

import (
	"context"
	"os"
	"testing"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// BenchmarkStart measures the time from the fork to the first batch, over the simulator.
// The environment variable WORKER names another program to compare with.
func BenchmarkStart(b *testing.B) {
	path := os.Getenv("WORKER")
	if path == "" {
		path = buildProgram(b)
	}
	exe, err := process.OpenExe(path)
	if err != nil {
		b.Fatal(err)
	}
	defer exe.Close()
	dir, err := process.OpenDir("")
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		s := worker.New(worker.Config{
			Exe: exe, Dir: dir,
			Request: verbs.Request{
				Backend: verbs.BackendSim, Sim: verbs.Simulation{Profile: "roce2"}, Options: verbs.Options{Device: "sim0"},
			},
		}, firstBatch{cancel})
		if err := s.Run(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// firstBatch ends supervision with the first batch.
type firstBatch struct{ enough func() }

// Started implements worker.Handler.
func (firstBatch) Started(*ledger.Ledger, func()) {}

// Status implements worker.Handler.
func (firstBatch) Status(status.Status) {}

// Ended implements worker.Handler.
func (firstBatch) Ended(status.End) {}

// Batch implements worker.Handler.
func (f firstBatch) Batch(verbs.Batch, status.Status) { f.enough() }

// RingItems implements worker.Handler.
func (firstBatch) RingItems([]verbs.Item) {}
