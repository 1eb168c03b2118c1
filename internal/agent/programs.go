package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/sys/process"
)

// programs holds the open programs that the plugin starts, and the directory of their sockets.
type programs struct {
	worker *os.File
	tracer *os.File // nil if no tracer is configured or its program has not been opened yet
	dir    *process.Dir
}

func (c *Config) openPrograms() (*programs, error) {
	var p programs
	var err error
	if p.worker, err = c.openWorker(); err == nil {
		p.dir, err = process.OpenDir("")
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return &p, nil
}

func (p *programs) close() error {
	var err error
	if p.dir != nil {
		err = p.dir.Close()
	}
	return errors.Join(err, closeFile(p.worker), closeFile(p.tracer))
}

// closeFile closes a file that may be nil.
func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// WorkerPath returns the default path of the worker program.
func WorkerPath() (string, error) { return programPath(WorkerName) }

// TracerPath returns the default path of the tracer program.
func TracerPath() (string, error) { return programPath(tracer.ProgramName) }

// programPath returns the path of a program in the directory of the running program.
func programPath(name string) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return filepath.Join(filepath.Dir(own), name), nil
}

func (c *Config) openWorker() (*os.File, error) {
	return openProgram("worker_path", c.WorkerPath, WorkerName)
}

// ErrNoTracer marks an error about a tracer program that cannot be used. Config.Check returns such an error. The plugin
// runs without the program, and starts it as soon as it is available.
var ErrNoTracer = errors.New("no tracer program")

// tracerError makes errors.Is match an error about the tracer program with ErrNoTracer, without adding text.
type tracerError struct{ error }

// Is implements the interface of errors.Is.
func (tracerError) Is(target error) bool { return target == ErrNoTracer }

// Unwrap implements the interface of errors.Unwrap.
func (e tracerError) Unwrap() error { return e.error }

// openTracer opens the tracer program. It returns nil if the configuration needs no tracer. The error matches
// ErrNoTracer.
func (c *ApplicationsConfig) openTracer() (*os.File, error) {
	if !c.Events {
		return nil, nil
	}
	exe, err := openProgram("applications.tracer_path", c.TracerPath, tracer.ProgramName)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; install %s, or set applications.events = false", err, tracer.ProgramName)
	}
	if err != nil {
		return nil, tracerError{err}
	}
	return exe, nil
}

// openProgram opens the program at path, the value of option. If path is empty, it opens the program with the given
// name in the directory of the running program.
func openProgram(option, path, name string) (*os.File, error) {
	found := path
	if found == "" {
		var err error
		if found, err = programPath(name); err != nil {
			return nil, err
		}
	}
	exe, err := process.OpenExe(found)
	if err != nil {
		return nil, fmt.Errorf("%s: %s = %q: %w", table, option, path, err)
	}
	return exe, nil
}
