package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// capability is the number of a capability (capabilities(7)), and capabilities a set of capabilities.
type (
	capability   uint
	capabilities uint64
)

const (
	capSysAdmin capability = unix.CAP_SYS_ADMIN
	capPerfmon  capability = unix.CAP_PERFMON
	capBPF      capability = unix.CAP_BPF
)

func newCapabilities(all ...capability) (set capabilities) {
	for _, c := range all {
		set |= 1 << c
	}
	return set
}

// String returns the names of the capabilities that a tracer may need, in the format of setcap(8).
func (s capabilities) String() string {
	var names []string
	for _, row := range []struct {
		capability
		name string
	}{{capBPF, "cap_bpf"}, {capPerfmon, "cap_perfmon"}, {capSysAdmin, "cap_sys_admin"}} {
		if s&(1<<row.capability) != 0 {
			names = append(names, row.name)
		}
	}
	return strings.Join(names, ",")
}

// readFileCaps reads the extended attribute with a file's capabilities. It returns nil if the file has none.
func readFileCaps(path string) ([]byte, error) {
	raw := make([]byte, 64) // larger than the attribute can be
	n, err := unix.Getxattr(path, "security.capability", raw)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read capabilities of %s: %w", path, err)
	}
	return raw[:n], nil
}

// errFileCaps is the error for an attribute in an unknown format.
var errFileCaps = errors.New("the file's capabilities are of an unknown form")

// decodeFileCaps returns the permitted capabilities in the attribute (struct vfs_cap_data in linux/capability.h). The
// flag that makes them effective at the start does not matter, because the tracer raises them itself.
func decodeFileCaps(raw []byte) (capabilities, error) {
	const (
		revision2, revision3 = 2 << 24, 3 << 24
		revisions            = 0xff << 24
	)
	if len(raw) == 0 {
		return 0, nil
	}
	if len(raw) < 20 {
		return 0, errFileCaps
	}
	word := func(n int) uint32 { return binary.LittleEndian.Uint32(raw[4*n:]) }
	if r := word(0) & revisions; r != revision2 && r != revision3 {
		return 0, errFileCaps
	}
	return capabilities(word(3))<<32 | capabilities(word(1)), nil
}
