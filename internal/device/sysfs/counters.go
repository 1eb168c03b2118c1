package sysfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// ErrStopped is the error of ReadCounters if goOn ended it.
var ErrStopped = errors.New("it took too long")

// ReadCounters reads the counters of a port from CountersPort or CountersHardware. With some
// drivers each counter is a command to the device, so ReadCounters calls goOn before each one and
// stops with ErrStopped if it returns false. It returns the counters that it has read even with an
// error. It returns ErrUnsupported if there are no counters, or if the first refusals files have
// all been refused; the latter wraps the errno of the last refusal.
func (s FS) ReadCounters(name string, port int, from verbs.CounterSource, refusals int, goOn func() bool) (map[string]uint64, error) {
	dir := filepath.Join(s.portDir(name, port), string(from))
	files, err := listDir(dir)
	if err != nil {
		return nil, err
	}
	counters := map[string]uint64{}
	var refused error
	row := 0
	for _, file := range files {
		if file == lifespan {
			continue
		}
		if len(counters) == 0 && row >= refusals {
			break
		}
		if !goOn() {
			return counters, fmt.Errorf("%w: %d of %d files of %s are read", ErrStopped, len(counters), len(files), from)
		}
		n, err := readCounter(filepath.Join(dir, file))
		switch {
		case err == nil:
			counters[file] = n
		case !isAbsent(err):
			return counters, fmt.Errorf("read counter: %w", err)
		case isRefused(err):
			refused = err
			row++
		}
	}
	if len(counters) == 0 && refused != nil {
		return nil, fmt.Errorf("%w: no %s: %w", verbs.ErrUnsupported, from, refused)
	}
	if len(counters) == 0 {
		return nil, fmt.Errorf("%w: no %s", verbs.ErrUnsupported, from)
	}
	return counters, nil
}

func readCounter(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// isAbsent reports whether a counter cannot be read because it does not exist: a port without
// performance management answers "N/A (no PMA)", others EINVAL (drivers/infiniband/core/sysfs.c).
// Any other error may come from a device that does not answer; its next counter would take as
// long.
func isAbsent(err error) bool {
	return errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) || errors.Is(err, unix.EINVAL) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
}

// isRefused reports whether the driver or the firmware has refused to read an existing counter.
func isRefused(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM)
}

// aerKinds are the kinds of errors of a PCI function that the kernel counts
// (Documentation/ABI/testing/sysfs-bus-pci-devices-aer).
var aerKinds = []string{"correctable", "nonfatal", "fatal"}

// ReadAER reads the kernel's counts of errors of a device's PCI function, by names such as
// "correctable RxErr". It asks no driver. It returns ErrUnsupported if the function does not report
// errors.
func (s FS) ReadAER(name string) (map[string]uint64, error) {
	address, _ := s.PCIFunctionOf(name)
	if address == "" {
		return nil, fmt.Errorf("%w: %s is no PCI function", verbs.ErrUnsupported, name)
	}
	counters := ParseAER(func(file string) string { return readAttr(s.deviceDir(name), "device", file) })
	if len(counters) == 0 {
		return nil, fmt.Errorf("%w: the PCI function has no error reporting", verbs.ErrUnsupported)
	}
	return counters, nil
}

// ReadSensors reads the temperature of a device's PCI function. The driver asks the firmware for it. ReadSensors returns ErrUnsupported
// if the driver has no sensor, as mlx5 before Linux 6.7, or for a virtual function.
func (s FS) ReadSensors(name string) (map[string]uint64, error) {
	files, err := filepath.Glob(filepath.Join(s.deviceDir(name), "device/hwmon/hwmon*", verbs.Temperature))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%w: the PCI function has no sensor of temperature", verbs.ErrUnsupported)
	}
	n, err := readCounter(files[0])
	switch {
	case err == nil:
		return map[string]uint64{verbs.Temperature: n}, nil
	case isAbsent(err):
		return nil, fmt.Errorf("%w: %w", verbs.ErrUnsupported, err)
	}
	return nil, fmt.Errorf("read sensor: %w", err)
}

// ParseAER returns the counts of a PCI function's errors as ReadAER does, without the sums. read
// returns the text of a file in the function's directory, "" if there is none.
func ParseAER(read func(file string) string) map[string]uint64 {
	counters := map[string]uint64{}
	for _, kind := range aerKinds {
		for line := range strings.Lines(read("aer_dev_" + kind)) {
			what, count, _ := strings.Cut(strings.TrimSpace(line), " ")
			if n, err := strconv.ParseUint(count, 10, 64); err == nil && !strings.HasPrefix(what, "TOTAL_") {
				counters[kind+" "+what] = n
			}
		}
	}
	return counters
}
