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

// ReadCounters reads the counters of a port from CountersPort or CountersHardware. It asks the
// device for each of them with some drivers, so that it calls goOn before each and ends if that
// returns false. It returns those that it has read, also with an
// error. ErrUnsupported: there are none, which is also the answer once so many files as refusals have been refused, and
// none was read. The errno of the last refusal is wrapped.
func (s FS) ReadCounters(name string, port int, from verbs.CounterSource, refusals int, goOn func() bool) (map[string]uint64, error) {
	dir := filepath.Join(s.port(name, port), string(from))
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

// isAbsent reports whether a counter cannot be read because there is none: a port without
// performance management answers "N/A (no PMA)", others EINVAL (drivers/infiniband/core/sysfs.c).
// Any other error may be that of a device that does not answer, whose next counter would take
// as long.
func isAbsent(err error) bool {
	return errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) || errors.Is(err, unix.EINVAL) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)
}

// isRefused reports whether the driver or the firmware has refused to read a counter that is there.
func isRefused(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM)
}

// aerKinds are the kinds of errors of a PCI function that the kernel counts
// (Documentation/ABI/testing/sysfs-bus-pci-devices-aer).
var aerKinds = []string{"correctable", "nonfatal", "fatal"}

// ReadAER reads what the kernel has counted of the errors of a device's PCI function, as in
// "correctable RxErr". It asks no driver. ErrUnsupported: the function does not report errors.
func (s FS) ReadAER(name string) (map[string]uint64, error) {
	address, _ := s.PCIFunctionOf(name)
	if address == "" {
		return nil, fmt.Errorf("%w: %s is no PCI function", verbs.ErrUnsupported, name)
	}
	counters := ParseAER(func(file string) string { return readAttr(s.device(name), "device", file) })
	if len(counters) == 0 {
		return nil, fmt.Errorf("%w: the PCI function has no error reporting", verbs.ErrUnsupported)
	}
	return counters, nil
}

// ReadSensors reads the temperature of a device's PCI function, which its driver asks the firmware for. ErrUnsupported: the driver has
// no sensor there, as before Linux 6.7 with mlx5, or for a virtual function.
func (s FS) ReadSensors(name string) (map[string]uint64, error) {
	files, err := filepath.Glob(filepath.Join(s.device(name), "device/hwmon/hwmon*", verbs.Temperature))
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

// ParseAER returns the counts of a PCI function's errors, without the sums, as ReadAER does. read
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
