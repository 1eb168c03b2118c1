package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/sys/status"
)

// openWorker opens the program that the plugin would start.
func (x *examination) openWorker() {
	x.workerPath = x.WorkerPath
	if x.plugin.WorkerPath != "" {
		x.workerPath = x.plugin.WorkerPath
	}
	x.worker, x.workerErr = x.OpenWorker(x.workerPath)
}

// closeWorker closes the program. The program cannot be used afterwards.
func (x *examination) closeWorker() {
	if x.worker != nil {
		_ = x.worker.Close() // an error only leaves the plugin's own directory behind, which the next start removes
	}
}

// checkWorker reports the worker program and its version.
func checkWorker(x *examination) []Result {
	r := Result{Check: "worker_program"}
	if x.workerErr != nil {
		r.Status, r.Text, r.Fix = Fail, x.workerErr.Error(), x.installWorker()
		switch {
		case errors.Is(x.workerErr, status.ErrUntrusted):
			r.Fix = x.command(advice.TrustWorker, x.workerPath)
		case x.isFile(x.workerPath):
			r.Fix = x.command(advice.LetWorkerRun, x.workerPath)
		}
		return []Result{r}
	}
	switch {
	case x.versionErr != nil:
		r.Status, r.Text, r.Fix = Fail, fmt.Sprintf("%s cannot be used: %v", x.workerPath, x.versionErr), x.installWorker()
	case x.version != x.Version:
		r.Status, r.Fix = Warn, x.installWorker()
		r.Text = fmt.Sprintf("%s has version %s, and this program %s", x.workerPath, x.version, x.Version)
	default:
		r.Text = fmt.Sprintf("%s, version %s", x.workerPath, x.version)
	}
	return []Result{r}
}

func (x *examination) isFile(name string) bool {
	info, err := fs.Stat(x.Root, inspect.Relative(name))
	return err == nil && info.Mode().IsRegular()
}

func (x *examination) installWorker() advice.Line {
	return x.command(advice.InstallWorker, filepath.Dir(x.workerPath))
}
