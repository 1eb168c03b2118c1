package ethtool

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	setStatistics = 1  // ETH_SS_STATS
	nameSize      = 32 // ETH_GSTRING_LEN

	// maxClaimed is the most statistics that a driver may have. The kernel has no means to
	// read a part of them. Drivers list those of each queue, so that big ones have thousands;
	// the names of 32,768 need 1 MiB for as long as a call lasts.
	maxClaimed = 32 << 10
	// maxValues is the most statistics of a reading.
	maxValues = 256
)

// Statistics is one reading of those statistics of a driver that are about pauses, discards
// and errors.
type Statistics struct {
	Values  map[string]uint64 // by the driver's name; at most 256
	Claimed int               // all that the driver has
	LeftOut int               // those about the same matters beyond the 256, and further ones of the same name
}

// QueryStatistics reads the statistics of an interface. It opens and closes a socket, and may be
// called concurrently. Beyond the result it maps 1 MiB at most, which it gives back. It takes
// the kernel's RTNL lock three times and may not return for long; see the package. Drivers may
// ask their firmware once or many times for it, as mlx5 does.
func QueryStatistics(name string) (Statistics, error) {
	s, err := queryStatistics(name, wanted)
	if err != nil {
		return Statistics{}, fmt.Errorf("read ethtool statistics of %q: %w", name, classify(err))
	}
	return s, nil
}

func queryStatistics(name string, wanted func(name []byte) bool) (Statistics, error) {
	if err := checkName(name); err != nil {
		return Statistics{}, err
	}
	fd, err := open()
	if err != nil {
		return Statistics{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	return statistics(on(fd, name), wanted)
}

// statistics counts, reads the names, chooses, and reads the values.
func statistics(do command, wanted func(name []byte) bool) (Statistics, error) {
	n, err := count(do)
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
	err = read(do, []uint32{unix.ETHTOOL_GSTRINGS, setStatistics, uint32(n)}, nameSize, func(names []byte) {
		chosen, s.LeftOut = choose(names, wanted)
	})
	if err != nil {
		return Statistics{}, fmt.Errorf("read their names: %w", err)
	}
	err = read(do, []uint32{unix.ETHTOOL_GSTATS, uint32(n)}, 8, func(values []byte) {
		for _, c := range chosen {
			s.Values[c.name] = binary.NativeEndian.Uint64(values[8*c.index:])
		}
	})
	if err != nil {
		return Statistics{}, fmt.Errorf("read their values: %w", err)
	}
	return s, nil
}

// count returns how many statistics the driver has. ETHTOOL_GDRVINFO has the number too, and
// asks the driver for the version of its firmware besides.
func count(do command) (int, error) {
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

// read does a command whose last word of the header is a number of entries, and calls use for
// the entries. use must not keep them.
func read(do command, header []uint32, entry int, use func(entries []byte)) error {
	n := header[len(header)-1]
	data, release, err := reserve(4*len(header) + int(n)*entry)
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
	// Newer kernels say 0 here if the number has changed since it was asked for.
	if got := binary.NativeEndian.Uint32(data[4*(len(header)-1):]); got != n {
		return fmt.Errorf("the driver's statistics changed while they were read, from %d to %d", n, got)
	}
	use(data[4*len(header):])
	return nil
}
