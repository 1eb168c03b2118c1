package ethtool

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	setStatistics = 1  // ETH_SS_STATS
	nameSize      = 32 // ETH_GSTRING_LEN

	// maxClaimed is the largest number of statistics that a driver may have. The kernel cannot
	// return a part of them. Drivers have statistics for each queue, so that large devices have
	// thousands; the names of 32,768 need 1 MiB while a call lasts.
	maxClaimed = 32 << 10
	// maxValues is the largest number of statistics in a result.
	maxValues = 256
)

// Statistics is one reading of a driver's statistics about pauses, discards and errors.
type Statistics struct {
	Values  map[string]uint64 // by the driver's name; at most maxValues
	Claimed int               // how many statistics of all kinds the driver has
	LeftOut int               // how many about pauses, discards and errors are not in Values: more than maxValues, or of equal names
}

// QueryStatistics reads the statistics of an interface. It opens and closes a socket, and may be called concurrently. While it
// runs, it maps up to 1 MiB of memory. It takes the kernel's RTNL lock three times and may block
// for long; see the package. Drivers may ask their firmware once or many times, as mlx5 does.
func QueryStatistics(name string) (Statistics, error) {
	s, err := queryStatistics(name, isWanted)
	if err != nil {
		return Statistics{}, fmt.Errorf("read ethtool statistics of %q: %w", name, wrapErrno(err))
	}
	return s, nil
}

func queryStatistics(name string, wanted func(name []byte) bool) (Statistics, error) {
	if err := checkName(name); err != nil {
		return Statistics{}, err
	}
	fd, err := openSocket()
	if err != nil {
		return Statistics{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	return readStatistics(commandFor(fd, name), wanted)
}

// readStatistics reads the number and the names of the statistics, chooses the wanted ones, and reads their values.
func readStatistics(do ethtoolCommand, wanted func(name []byte) bool) (Statistics, error) {
	n, err := countStatistics(do)
	if err != nil {
		return Statistics{}, fmt.Errorf("count them: %w", err)
	}
	if n == 0 {
		return Statistics{}, nil
	}
	if n > maxClaimed {
		return Statistics{}, fmt.Errorf("%w: the driver claims %d statistics, and at most %d are read", ErrUnsupported, n, maxClaimed)
	}
	s := Statistics{Values: map[string]uint64{}, Claimed: n}
	var chosen []choice
	err = readEntries(do, []uint32{unix.ETHTOOL_GSTRINGS, setStatistics, uint32(n)}, nameSize, func(names []byte) {
		chosen, s.LeftOut = chooseStatistics(names, wanted)
	})
	if err != nil {
		return Statistics{}, fmt.Errorf("read their names: %w", err)
	}
	err = readEntries(do, []uint32{unix.ETHTOOL_GSTATS, uint32(n)}, 8, func(values []byte) {
		for _, c := range chosen {
			s.Values[c.name] = binary.NativeEndian.Uint64(values[8*c.index:])
		}
	})
	if err != nil {
		return Statistics{}, fmt.Errorf("read their values: %w", err)
	}
	return s, nil
}

// countStatistics returns how many statistics the driver has. It does not use ETHTOOL_GDRVINFO, which
// has the number too, but also asks the driver for the version of its firmware.
func countStatistics(do ethtoolCommand) (int, error) {
	info := make([]byte, 20) // struct ethtool_sset_info: cmd, reserved, a mask of 64 bits, one count
	binary.NativeEndian.PutUint32(info, unix.ETHTOOL_GSSET_INFO)
	binary.NativeEndian.PutUint64(info[8:], 1<<setStatistics)
	if err := do(info); err != nil {
		return 0, err
	}
	if binary.NativeEndian.Uint64(info[8:]) == 0 {
		return 0, fmt.Errorf("%w: the driver has no statistics", ErrUnsupported)
	}
	return int(binary.NativeEndian.Uint32(info[16:])), nil
}

// readEntries runs a command that returns entries, and calls use with all of them. The last word of
// header is the number of entries. use must not keep its argument.
func readEntries(do ethtoolCommand, header []uint32, entry int, use func(entries []byte)) error {
	n := header[len(header)-1]
	data, release, err := reserveMemory(4*len(header) + int(n)*entry)
	if err != nil {
		return err
	}
	defer release()
	for i, word := range header {
		binary.NativeEndian.PutUint32(data[4*i:], word)
	}
	if err := do(data); err != nil {
		return err
	}
	// Newer kernels return 0 here if the number has changed since it was read.
	if got := binary.NativeEndian.Uint32(data[4*(len(header)-1):]); got != n {
		return fmt.Errorf("the driver's statistics changed while they were read, from %d to %d", n, got)
	}
	use(data[4*len(header):])
	return nil
}
